#pragma once

#include "base/dtype.h"
#include "kernels/attention_decoder/cuda/persistent/arguments.h"

namespace sluice::kernels::attention_decoder::cuda::persistent {

/// A kernel all of whose blocks run at once, and the shared memory of each.
struct Steps {
  const void* kernel;
  int shared_bytes;
};
/// Of (Arguments<S>), of which `start` comes first; `backward` of (BackwardArguments<S>).
struct Kernels {
  const void* start;  ///< kStartBlocks blocks of kStartThreads
  Steps forward, backward;
};
inline constexpr int kStartThreads = 256, kStartBlocks = kRows * kWidth / 4 / kStartThreads;

/// Of bfloat16 or float16.
Kernels kernels_of(base::DType storage);
Steps backward_of(base::DType storage);

}  // namespace sluice::kernels::attention_decoder::cuda::persistent
