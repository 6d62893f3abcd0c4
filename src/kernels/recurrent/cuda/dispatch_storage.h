#pragma once

#include "base/check.h"
#include "base/dtype.h"
#include "kernels/recurrent/cuda/storage.h"

namespace sluice::kernels::recurrent::cuda {

/// Calls `body(TypeTag<T>{})` with the device type of a storage dtype.
template <typename Body>
void dispatch_device_storage(base::DType dtype, Body&& body) {
  if (dtype == base::DType::kFloat32) return body(base::TypeTag<float>{});
  if (dtype == base::DType::kBFloat16) return body(base::TypeTag<__nv_bfloat16>{});
  SLUICE_ASSERT(dtype == base::DType::kFloat16);
  body(base::TypeTag<__half>{});
}

}  // namespace sluice::kernels::recurrent::cuda
