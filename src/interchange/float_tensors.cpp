#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "base/dtype.h"
#include "interchange/source_model.h"

namespace sluice::interchange {
namespace {

using base::DType;
using io::HostTensor;

template <typename T>
HostTensor converted(const HostTensor& tensor) {
  HostTensor result = HostTensor::make(DType::kFloat32, tensor.shape);
  const auto from = tensor.values<T>();
  const auto to = result.values<float>();
  for (std::size_t i = 0; i < to.size(); ++i) to[i] = static_cast<float>(from[i]);
  return result;
}

}  // namespace

HostTensor to_float32(const HostTensor& tensor) {
  switch (tensor.dtype) {
    case DType::kFloat64:
      return converted<double>(tensor);
    case DType::kFloat32:
      return tensor;
    case DType::kBFloat16:
      return converted<base::BFloat16>(tensor);
    case DType::kFloat16:
      return converted<base::Float16>(tensor);
    case DType::kInt64:
      return converted<std::int64_t>(tensor);
    case DType::kInt32:
      return converted<std::int32_t>(tensor);
    case DType::kUInt8:
      return converted<std::uint8_t>(tensor);
    case DType::kInt8:
      return converted<std::int8_t>(tensor);
  }
  base::fail(ErrorCode::kUnsupported, "a tensor of unknown type");
}

HostTensor transposed(const HostTensor& matrix) {
  const std::int64_t rows = matrix.shape[0], columns = matrix.shape[1];
  HostTensor result = HostTensor::make(DType::kFloat32, {columns, rows});
  const auto from = matrix.values<float>();
  const auto to = result.values<float>();
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < columns; ++column) {
      to[static_cast<std::size_t>(column * rows + row)] =
          from[static_cast<std::size_t>(row * columns + column)];
    }
  }
  return result;
}

}  // namespace sluice::interchange
