#include "kernels/recurrent/cuda/projected/kernels.h"

#include "base/check.h"

namespace sluice::kernels::recurrent::cuda::projected {

extern const Kernels kernels_bf16, kernels_f16;

const Kernels& kernels_of(DType storage) {
  const bool bf16 = storage == DType::kBFloat16;
  SLUICE_ASSERT(bf16 || storage == DType::kFloat16);
  return bf16 ? kernels_bf16 : kernels_f16;
}

}  // namespace sluice::kernels::recurrent::cuda::projected
