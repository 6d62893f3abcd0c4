#pragma once

#include "kernels/attention_decoder/cuda/numbers.h"

/// For .cu files only.
namespace sluice::kernels::attention_decoder::cuda {

/// Elements that a thread reads at once.
constexpr int kVector = 4;

template <typename W>
struct Four {
  W x[kVector] = {};
};

/// `source` is aligned to four elements.
template <typename S>
__device__ inline Four<Wide<S>> load_four(const S* source) {
  struct alignas(kVector * sizeof(S)) Raw {
    S x[kVector];
  };
  const Raw raw = *reinterpret_cast<const Raw*>(source);
  Four<Wide<S>> values;
#pragma unroll
  for (int i = 0; i < kVector; ++i) values.x[i] = static_cast<Wide<S>>(raw.x[i]);
  return values;
}

template <typename S>
__device__ inline void store_four(S* target, const Four<Wide<S>>& values) {
  struct alignas(kVector * sizeof(S)) Raw {
    S x[kVector];
  } raw;
#pragma unroll
  for (int i = 0; i < kVector; ++i) raw.x[i] = static_cast<S>(values.x[i]);
  *reinterpret_cast<Raw*>(target) = raw;
}

}  // namespace sluice::kernels::attention_decoder::cuda
