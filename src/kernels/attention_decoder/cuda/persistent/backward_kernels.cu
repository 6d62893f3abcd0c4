#include "kernels/attention_decoder/cuda/persistent/backward_kernel.h"
#include "kernels/attention_decoder/cuda/persistent/kernels.h"

namespace sluice::kernels::attention_decoder::cuda::persistent {

Steps backward_of(base::DType storage) {
  return {storage == base::DType::kBFloat16
              ? reinterpret_cast<const void*>(backward_kernel<__nv_bfloat16>)
              : reinterpret_cast<const void*>(backward_kernel<__half>),
          BackwardMemory::kBytes};
}

}  // namespace sluice::kernels::attention_decoder::cuda::persistent
