#pragma once

#include <cuda_runtime_api.h>

namespace sluice::kernels::recurrent::cuda {

/// Where a launch of many steps goes.
struct LaunchQueue {
  cudaStream_t stream;
  /// Happens when all its blocks have begun, so that what waits for it takes none of their
  /// multiprocessors. Null: unwanted.
  cudaEvent_t begun = nullptr;
  /// Of a layer's launches for some of its rows each, the one to queue; -1: all of them.
  int part = -1;

  /// Adds what has the event recorded to the first `count` attributes; returns how many there are.
  unsigned add_event(cudaLaunchAttribute* attributes, unsigned count) const {
    if (begun == nullptr) return count;
    attributes[count].id = cudaLaunchAttributeLaunchCompletionEvent;
    attributes[count].val.launchCompletionEvent.event = begun;
    attributes[count].val.launchCompletionEvent.flags = 0;
    return count + 1;
  }
};

}  // namespace sluice::kernels::recurrent::cuda
