#include "interchange/onnx/onnx_constants.h"

#include <algorithm>

#include "base/check.h"

namespace sluice::interchange::onnx {
namespace {

using io::HostTensor;
using io::formats::OnnxAttribute;
using io::formats::OnnxNode;
using io::formats::OnnxTensor;

// Shapes, axes and the bounds of slices have few numbers.
constexpr std::int64_t kMostIntegers = 64;

/// Null if there is no such attribute.
template <typename T>
const T* find(const OnnxNode& node, std::string_view name) {
  const OnnxAttribute* attribute = node.find(name);
  if (attribute == nullptr) return nullptr;
  if (!attribute->reference.empty()) {
    base::fail(ErrorCode::kUnsupported,
               "{} takes its attribute '{}' from the call of a function, which is not read",
               describe(node), name);
  }
  const T* value = std::get_if<T>(&attribute->value);
  if (value == nullptr || !attribute->graphs.empty()) {
    base::fail(ErrorCode::kFormat, "{} has an attribute '{}' of another kind than ONNX says",
               describe(node), name);
  }
  return value;
}

Constant made_of(HostTensor tensor) {
  return {nullptr, std::make_shared<const HostTensor>(std::move(tensor))};
}

template <typename T>
void append(const HostTensor& tensor, std::vector<Number>& numbers) {
  for (const T value : tensor.values<T>()) {
    numbers.push_back({static_cast<std::int64_t>(value), {}});
  }
}

}  // namespace

std::string name_of(const OnnxNode& node) {
  if (!node.name.empty()) return node.name;
  return node.outputs.empty() ? "" : node.outputs[0];
}

std::string describe(const OnnxNode& node) {
  const std::string domain = node.domain.empty() ? "" : node.domain + ".";
  return fmt::format("the {}{} node '{}'", domain, node.op_type, name_of(node));
}

bool is_recurrent(const OnnxNode& node) {
  return node.domain.empty() &&
         (node.op_type == "LSTM" || node.op_type == "GRU" || node.op_type == "RNN");
}

std::int64_t int_of(const OnnxNode& node, std::string_view name, std::int64_t usual) {
  const auto* value = find<std::int64_t>(node, name);
  return value == nullptr ? usual : *value;
}
float float_of(const OnnxNode& node, std::string_view name, float usual) {
  const auto* value = find<float>(node, name);
  return value == nullptr ? usual : *value;
}
std::string text_of(const OnnxNode& node, std::string_view name, std::string_view usual) {
  const auto* value = find<std::string>(node, name);
  return value == nullptr ? std::string(usual) : *value;
}
std::optional<std::vector<std::int64_t>> ints_of(const OnnxNode& node, std::string_view name) {
  const auto* value = find<std::vector<std::int64_t>>(node, name);
  if (value == nullptr) return std::nullopt;
  return *value;
}
std::vector<float> floats_of(const OnnxNode& node, std::string_view name) {
  const auto* value = find<std::vector<float>>(node, name);
  return value == nullptr ? std::vector<float>() : *value;
}
std::vector<std::string> texts_of(const OnnxNode& node, std::string_view name) {
  const auto* value = find<std::vector<std::string>>(node, name);
  return value == nullptr ? std::vector<std::string>() : *value;
}

std::optional<Constant> constant_of(const OnnxNode& node) {
  if (const auto* value = find<std::vector<OnnxTensor>>(node, "value")) {
    if (value->size() == 1) return Constant{&value->front(), {}};
  }
  if (const auto* value = find<std::int64_t>(node, "value_int")) {
    return made_of(HostTensor::copy_of<std::int64_t>({value, 1}, {}));
  }
  if (const auto* value = find<float>(node, "value_float")) {
    return made_of(HostTensor::copy_of<float>({value, 1}, {}));
  }
  if (const auto* value = find<std::vector<std::int64_t>>(node, "value_ints")) {
    const auto size = static_cast<std::int64_t>(value->size());
    return made_of(HostTensor::copy_of<std::int64_t>(*value, {size}));
  }
  if (const auto* value = find<std::vector<float>>(node, "value_floats")) {
    const auto size = static_cast<std::int64_t>(value->size());
    return made_of(HostTensor::copy_of<float>(*value, {size}));
  }
  return std::nullopt;
}

std::vector<std::int64_t> sizes_of(const Constant& constant) {
  if (constant.stored != nullptr) return constant.stored->sizes;
  return {constant.made->shape.begin(), constant.made->shape.end()};
}

HostTensor load(const Constant& constant, const std::filesystem::path& model) {
  return constant.stored == nullptr ? *constant.made
                                    : io::formats::read_tensor(*constant.stored, model);
}

HostTensor load_float32(const Constant& constant, const std::filesystem::path& model) {
  HostTensor tensor = load(constant, model);
  return tensor.dtype == base::DType::kFloat32 ? tensor : to_float32(tensor);
}

std::optional<Numbers> integers_of(const Constant& constant, const std::filesystem::path& model) {
  const std::vector<std::int64_t> sizes = sizes_of(constant);
  if (sizes.size() > 1 || (sizes.size() == 1 && sizes[0] > kMostIntegers)) return std::nullopt;
  const std::optional<base::DType> dtype =
      constant.stored != nullptr ? constant.stored->type->dtype : constant.made->dtype;
  if (dtype != base::DType::kInt64 && dtype != base::DType::kInt32) return std::nullopt;
  const HostTensor tensor = load(constant, model);
  Numbers numbers;
  numbers.is_scalar = sizes.empty();
  if (tensor.dtype == base::DType::kInt64) append<std::int64_t>(tensor, numbers.values);
  if (tensor.dtype == base::DType::kInt32) append<std::int32_t>(tensor, numbers.values);
  return numbers;
}

bool is_all_zero(const Constant& constant, const std::filesystem::path& model) {
  const HostTensor tensor = load_float32(constant, model);
  return std::ranges::all_of(tensor.values<float>(), [](float value) { return value == 0; });
}

}  // namespace sluice::interchange::onnx
