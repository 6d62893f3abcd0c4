#include "kernels/attention_decoder/cuda/persistent/forward_kernel.h"
#include "kernels/attention_decoder/cuda/persistent/kernels.h"

namespace sluice::kernels::attention_decoder::cuda::persistent {
namespace {

template <typename S>
Kernels kernels(base::DType storage) {
  return {reinterpret_cast<const void*>(start_kernel<S>),
          {reinterpret_cast<const void*>(forward_kernel<S>), BlockMemory::kBytes},
          backward_of(storage)};
}

}  // namespace

Kernels kernels_of(base::DType storage) {
  return storage == base::DType::kBFloat16 ? kernels<__nv_bfloat16>(storage)
                                           : kernels<__half>(storage);
}

}  // namespace sluice::kernels::attention_decoder::cuda::persistent
