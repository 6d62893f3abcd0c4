#pragma once

#include <optional>
#include <string>

#include "kernels/recurrent/cuda/cell_kernels.h"
#include "kernels/recurrent/cuda/launch_queue.h"
#include "kernels/recurrent/cuda/persistent/extra_arguments.h"
#include "kernels/recurrent/cuda/persistent/rnn_arguments.h"
#include "runtime/cuda/cuda_device.h"

/// Which layers fit, how their rows are spread over clusters, and the launch.
namespace sluice::kernels::recurrent::cuda::persistent {

/// The reason if a layer of this shape can't be launched on this GPU, in one sentence. Asks the GPU
/// how many clusters it runs at once.
std::optional<std::string> refuse(const Descriptor& descriptor,
                                  const runtime::cuda::CudaDevice& device);

/// The reason if indices of the gates would overflow 32 bits.
std::optional<std::string> refuse_size(const Descriptor& descriptor);

/// The clusters that an accepted layer runs on. They determine how its weights are packed.
Cluster forward_cluster(const Descriptor& descriptor);
Cluster backward_cluster(const Descriptor& descriptor);

/// Queues forward or backward of a layer. `Args` is LayerForward, LayerBackward or a class derived
/// from one. `abreast`: how many layers run at the same time and share the GPU.
template <typename Args>
void launch(const LaunchQueue& queue, const CellKind& kind, const Descriptor& descriptor,
            std::int64_t abreast, const Args& args);

}  // namespace sluice::kernels::recurrent::cuda::persistent
