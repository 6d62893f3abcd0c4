#include "kernels/recurrent/cuda/cluster_launch.h"

#include "base/check.h"
#include "runtime/cuda/check.h"

namespace sluice::kernels::recurrent::cuda {

using runtime::cuda::check;

ClusterLaunch::ClusterLaunch(const void* kernel, const Size& size) : kernel_(kernel) {
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, size.bytes),
        "allow a recurrent kernel its shared memory");
  launch_.gridDim = static_cast<unsigned>(size.blocks);
  launch_.blockDim = static_cast<unsigned>(size.threads);
  launch_.dynamicSmemBytes = static_cast<std::size_t>(size.bytes);
  launch_.attrs = attributes_.data();
  add(cudaLaunchAttributeClusterDimension).clusterDim = {static_cast<unsigned>(size.cluster), 1, 1};
}

cudaLaunchAttributeValue& ClusterLaunch::add(cudaLaunchAttributeID id) {
  // One place is left for run()'s.
  SLUICE_ASSERT(launch_.numAttrs + 1 < attributes_.size());
  cudaLaunchAttribute& attribute = attributes_[launch_.numAttrs++];
  attribute.id = id;
  return attribute.val;
}

int ClusterLaunch::at_once() const {
  int clusters = 0;
  check(cudaOccupancyMaxActiveClusters(&clusters, kernel_, &launch_),
        "ask how many clusters of a recurrent kernel run at once");
  return clusters;
}

void ClusterLaunch::run(const LaunchQueue& queue, void** values) {
  cudaLaunchConfig_t launch = launch_;
  launch.numAttrs = queue.add_event(attributes_.data(), launch.numAttrs);
  launch.stream = queue.stream;
  check(cudaLaunchKernelExC(&launch, kernel_, values), "queue the kernel of a recurrent layer");
}

}  // namespace sluice::kernels::recurrent::cuda
