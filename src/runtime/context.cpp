#include "runtime/context.h"

namespace sluice::runtime {

Precision Precision::parse(std::string_view name) {
  if (name == "float32") return {DType::kFloat32, false};
  if (name == "tf32") return {DType::kFloat32, true};
  if (name == "bfloat16") return {DType::kBFloat16, false};
  if (name == "float16") return {DType::kFloat16, false};
  if (name == "int8") return {DType::kFloat32, false, true};
  base::fail(ErrorCode::kInvalidArgument,
             "unknown precision '{}'; use float32, tf32, bfloat16, float16 or int8", name);
}

void Context::zero(const Tensor& tensor) const {
  SLUICE_ASSERT(tensor.is_contiguous());
  stream_->fill_zero(tensor.data(), tensor.byte_size());
}

void Context::copy(const Tensor& destination, const Tensor& source) const {
  SLUICE_ASSERT(destination.is_contiguous() && source.is_contiguous());
  SLUICE_ASSERT(destination.dtype() == source.dtype());
  SLUICE_ASSERT(destination.byte_size() == source.byte_size());
  stream_->copy(destination.data(), source.data(), source.byte_size(), CopyKind::kDeviceToDevice);
}

void Context::check_transfer(const Tensor& tensor, DType dtype, std::size_t count) {
  SLUICE_ASSERT(tensor.is_contiguous() && tensor.dtype() == dtype);
  SLUICE_ASSERT(static_cast<std::size_t>(tensor.element_count()) == count);
}

}  // namespace sluice::runtime
