#pragma once

#include "base/dtype.h"
#include "kernels/attention_decoder/cuda/persistent/arguments.h"

namespace sluice::kernels::attention_decoder::cuda::persistent {

/// Of (Arguments<S>); `start` comes first.
struct Kernels {
  const void* start;  ///< kStartBlocks blocks of kStartThreads
  const void* forward;
};
inline constexpr int kStartThreads = 256, kStartBlocks = kRows * kWidth / 4 / kStartThreads;

/// Of bfloat16 or float16.
Kernels kernels_of(base::DType storage);
/// Bytes of a block's shared memory.
int shared_bytes();

}  // namespace sluice::kernels::attention_decoder::cuda::persistent
