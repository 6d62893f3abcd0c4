#pragma once

#include <cuda_runtime_api.h>

#include "runtime/cuda/check.h"

namespace sluice::runtime::cuda {

/// Makes a GPU the calling thread's current one, as CUDA wants it for what takes memory, makes
/// streams and events or starts kernels, and at its end the one that was. Costs a few nanoseconds
/// where it is the current one anyway.
class CurrentDevice {
 public:
  explicit CurrentDevice(int ordinal) {
    check(cudaGetDevice(&before_), "ask for the current GPU");
    if (before_ == ordinal) {
      before_ = kNone;
    } else {
      check(cudaSetDevice(ordinal), "change to another GPU");
    }
  }
  ~CurrentDevice() {
    if (before_ != kNone) cudaSetDevice(before_);
  }
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

 private:
  static constexpr int kNone = -1;
  int before_ = kNone;
};

}  // namespace sluice::runtime::cuda
