#pragma once

#include <string_view>

#include "base/check.h"
#include "runtime/context.h"
#include "runtime/tensor.h"

/// Checks that the contracts of all families share. Each sentence names the operation and the
/// tensor.
namespace sluice::kernels {

inline void check_dtype(const runtime::Tensor& tensor, base::DType dtype,
                        std::string_view operation, std::string_view name) {
  SLUICE_CHECK(tensor.dtype() == dtype, "{}: {} must be {}, not {}", operation, name,
               base::name_of(dtype), base::name_of(tensor.dtype()));
}

/// dtype and shape, without gaps between elements.
inline void check_tensor(const runtime::Tensor& tensor, base::DType dtype, const base::Shape& shape,
                         std::string_view operation, std::string_view name) {
  check_dtype(tensor, dtype, operation, name);
  SLUICE_CHECK(tensor.shape() == shape, "{}: {} must have shape {}, not {}", operation, name,
               shape.to_string(), tensor.shape().to_string());
  SLUICE_CHECK(tensor.is_contiguous(), "{}: {} must be contiguous", operation, name);
}

/// Two axes; rows may be strided but not overlap, elements of a row lie next to each other.
inline void check_matrix(const runtime::Tensor& tensor, std::string_view operation,
                         std::string_view name) {
  SLUICE_CHECK(tensor.rank() == 2, "{}: {} must have 2 axes, not shape {}", operation, name,
               tensor.shape().to_string());
  SLUICE_CHECK(tensor.size(1) <= 1 || tensor.stride(1) == 1,
               "{}: elements of a row of {} must lie next to each other, not {} apart", operation,
               name, tensor.stride(1));
  SLUICE_CHECK(tensor.size(0) <= 1 || tensor.stride(0) >= tensor.size(1),
               "{}: rows of {} overlap: stride {} for {} columns", operation, name,
               tensor.stride(0), tensor.size(1));
}

}  // namespace sluice::kernels
