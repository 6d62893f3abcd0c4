#include "model_files/stored_weights.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "io/safetensors_header.h"

namespace sluice::model_files {
namespace {

using base::BFloat16;
using base::fail;
using io::Container;
using io::DType;
using io::HostTensor;
using io::Shape;

constexpr float kMost = 127;

const HostTensor& require_scales(const Container& container, std::string_view name,
                                 const Shape& shape) {
  if (shape.rank() != 2) {
    fail(ErrorCode::kFormat, "'{}': {} is int8, but only matrices are stored so, not shape {}",
         container.origin, io::quote_name(name), shape.to_string());
  }
  return io::require_tensor(container, scale_name(name), {shape[0]});
}

std::vector<float> widened(const HostTensor& tensor) {
  std::vector<float> values;
  for (const BFloat16 value : tensor.values<BFloat16>()) {
    values.push_back(static_cast<float>(value));
  }
  return values;
}

std::vector<float> expanded(const Container& container, std::string_view name,
                            const HostTensor& tensor, const HostTensor& scales) {
  const std::span<const std::int8_t> integers = tensor.values<std::int8_t>();
  const auto columns = static_cast<std::size_t>(tensor.shape[1]);
  std::vector<float> values;
  values.reserve(integers.size());
  for (std::size_t i = 0; i < integers.size(); ++i) {
    const float scale = scales.values<float>()[i / columns];
    if (!std::isfinite(scale) || scale < 0 || integers[i] == -128) {
      fail(ErrorCode::kFormat,
           "'{}': row {} of {} holds {} with the scale {}; integers go from "
           "-127 to 127 and scales are finite and not negative",
           container.origin, i / columns, io::quote_name(name), integers[i], scale);
    }
    values.push_back(static_cast<float>(integers[i]) * scale);
  }
  return values;
}

void add_rows(Container& container, const std::string& name, const Shape& shape,
              std::span<const float> values, double clip) {
  SLUICE_CHECK(shape.rank() == 2, "{} of shape {} is no matrix, and only those are stored as int8",
               name, shape.to_string());
  SLUICE_CHECK(clip > 0 && clip <= 1,
               "{} is clipped to {} of its range; use more than 0, at most 1", name, clip);
  const auto rows = static_cast<std::size_t>(shape[0]),
             columns = static_cast<std::size_t>(shape[1]);
  std::vector<std::int8_t> integers;
  std::vector<float> scales;
  for (std::size_t row = 0; row < rows; ++row) {
    const std::span<const float> weights = values.subspan(row * columns, columns);
    float most = 0;
    for (const float weight : weights) most = std::max(most, std::abs(weight));
    const auto scale = static_cast<float>(clip * most / kMost);
    scales.push_back(std::isnormal(scale) ? scale : 0);
    for (const float weight : weights) {
      const float number = scales.back() > 0 ? std::nearbyint(weight / scale) : 0;
      integers.push_back(static_cast<std::int8_t>(std::clamp(number, -kMost, kMost)));
    }
  }
  container.tensors.add(name, HostTensor::copy_of<std::int8_t>(integers, shape));
  container.tensors.add(scale_name(name), HostTensor::copy_of<float>(scales, {shape[0]}));
}

}  // namespace

std::string scale_name(std::string_view parameter) { return std::string(parameter) + ".scale"; }

DType stored_dtype(const Container& container) {
  DType stored = DType::kFloat32;
  for (const auto& [name, tensor] : container.tensors) {
    if (base::size_of(tensor.dtype) < base::size_of(stored)) stored = tensor.dtype;
  }
  return stored;
}

void require_stored(const Container& container, std::string_view name, const Shape& shape) {
  const HostTensor* tensor = container.tensors.find(name);
  const bool narrow = tensor != nullptr && container.revision >= 2 &&
                      (tensor->dtype == DType::kInt8 || tensor->dtype == DType::kBFloat16);
  io::require_tensor(container, name, shape, narrow ? tensor->dtype : DType::kFloat32);
  if (narrow && tensor->dtype == DType::kInt8) require_scales(container, name, shape);
}

std::vector<float> stored_values(const Container& container, std::string_view name,
                                 const Shape& shape) {
  require_stored(container, name, shape);
  const HostTensor& tensor = *container.tensors.find(name);
  if (tensor.dtype == DType::kBFloat16) return widened(tensor);
  if (tensor.dtype == DType::kInt8) {
    return expanded(container, name, tensor, require_scales(container, name, shape));
  }
  const std::span<const float> values = tensor.values<float>();
  return {values.begin(), values.end()};
}

void add_stored(Container& container, const std::string& name, const Shape& shape,
                std::span<const float> values, DType dtype, double clip) {
  if (dtype == DType::kFloat32) {
    container.tensors.add(name, HostTensor::copy_of<float>(values, shape));
    return;
  }
  container.revision = 2;
  if (dtype == DType::kInt8) return add_rows(container, name, shape, values, clip);
  SLUICE_CHECK(dtype == DType::kBFloat16, "weights are stored in float32, bfloat16 or int8, not {}",
               base::name_of(dtype));
  std::vector<BFloat16> narrow;
  for (const float value : values) narrow.emplace_back(value);
  container.tensors.add(name, HostTensor::copy_of<BFloat16>(narrow, shape));
}

}  // namespace sluice::model_files
