#pragma once

#include <cuda.h>

#include <cstdint>
#include <initializer_list>

#include "base/dtype.h"

namespace sluice::kernels::recurrent::cuda {

/// One extent of a tensor in storage, innermost first.
struct MapExtent {
  std::int64_t size;
  std::int64_t stride;  ///< elements; the innermost is contiguous
  std::int64_t box;     ///< of it in one copy
};

/// How TMA reads boxes of a tensor (cuTensorMapEncodeTiled), 128 bytes of the innermost
/// extent at a time, or 64 or 32, swizzled likewise. Address and strides are multiples of 16 bytes.
/// Throws ErrorCode::kDevice if the driver can't.
CUtensorMap make_tensor_map(base::DType storage, const void* data,
                            std::initializer_list<MapExtent> list);

}  // namespace sluice::kernels::recurrent::cuda
