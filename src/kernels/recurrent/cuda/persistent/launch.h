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

/// Why a layer of this shape can't be launched on this GPU, in one sentence. Asks the GPU how many
/// clusters it runs at once.
std::optional<std::string> refuse(const Descriptor& descriptor,
                                  const runtime::cuda::CudaDevice& device);

/// Why cells can't compute layers of that size, if they can't: they count in 32 bits.
std::optional<std::string> refuse_size(const Descriptor& descriptor);

/// What clusters a layer that isn't refused runs on, and so how its weights are packed.
Cluster forward_cluster(const Descriptor& descriptor);
Cluster backward_cluster(const Descriptor& descriptor);

/// Queues forward or backward of a layer: `Args` is LayerForward, LayerBackward or what adds to
/// one. `abreast`: layers that run beside each other and share the GPU.
template <typename Args>
void launch(const LaunchQueue& queue, const CellKind& kind, const Descriptor& descriptor,
            std::int64_t abreast, const Args& args);

}  // namespace sluice::kernels::recurrent::cuda::persistent
