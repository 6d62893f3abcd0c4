#pragma once

#include <array>
#include <cstdint>

#include "kernels/recurrent/cuda/launch_queue.h"

namespace sluice::kernels::recurrent::cuda {

/// How many clusters of `blocks` blocks an H200 runs at once, if each block takes a multiprocessor
/// for itself (from cudaOccupancyMaxActiveClusters).
constexpr int clusters_at_once(int blocks) {
  return blocks < 4 ? 132 / blocks : blocks == 4 ? 30 : blocks == 8 ? 15 : 7;
}

/// A launch of a kernel in clusters.
class ClusterLaunch {
 public:
  struct Size {
    int cluster;          ///< blocks
    std::int64_t blocks;  ///< of all clusters
    int threads, bytes;   ///< of a block, and its dynamic shared memory
  };
  /// Raises the kernel's limit of dynamic shared memory to `size.bytes`.
  ClusterLaunch(const void* kernel, const Size& size);
  ClusterLaunch(const ClusterLaunch&) = delete;
  ClusterLaunch& operator=(const ClusterLaunch&) = delete;

  /// Adds a launch attribute; the caller fills in the value.
  cudaLaunchAttributeValue& add(cudaLaunchAttributeID id);

  /// Asks the GPU how many such clusters it runs at once.
  int at_once() const;
  /// `values`: addresses of the kernel's arguments.
  void run(const LaunchQueue& queue, void** values);

 private:
  const void* kernel_;
  std::array<cudaLaunchAttribute, 3> attributes_{};
  cudaLaunchConfig_t launch_{};
};

}  // namespace sluice::kernels::recurrent::cuda
