#pragma once

#include <optional>
#include <string>

#include "kernels/recurrent/cuda/cell_kernels.h"
#include "kernels/recurrent/cuda/cluster_wgmma/arguments.h"
#include "kernels/recurrent/cuda/launch_queue.h"
#include "runtime/cuda/cuda_device.h"

/// Which layers fit, how their rows are spread over clusters, and the launch.
namespace sluice::kernels::recurrent::cuda::cluster_wgmma {

/// Why forward of a layer of this shape can't be launched on this GPU, or better isn't, in one
/// sentence. Asks the GPU whether it runs such clusters.
std::optional<std::string> refuse(const Descriptor& descriptor,
                                  const runtime::cuda::CudaDevice& device);

/// Launches all directions of a layer.
void launch(const LaunchQueue& queue, const CellKind& kind, const LayerForward& args);

}  // namespace sluice::kernels::recurrent::cuda::cluster_wgmma
