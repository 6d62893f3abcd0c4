#include "kernels/attention_decoder/cuda/persistent/forward_kernel.h"
#include "kernels/attention_decoder/cuda/persistent/kernels.h"

namespace sluice::kernels::attention_decoder::cuda::persistent {
namespace {

template <typename S>
Kernels kernels() {
  return {reinterpret_cast<const void*>(start_kernel<S>),
          reinterpret_cast<const void*>(forward_kernel<S>)};
}

}  // namespace

Kernels kernels_of(base::DType storage) {
  return storage == base::DType::kBFloat16 ? kernels<__nv_bfloat16>() : kernels<__half>();
}

int shared_bytes() { return BlockMemory::kBytes; }

}  // namespace sluice::kernels::attention_decoder::cuda::persistent
