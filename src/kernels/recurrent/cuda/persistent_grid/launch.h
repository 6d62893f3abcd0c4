#pragma once

#include <optional>
#include <string>

#include "kernels/recurrent/cuda/launch_queue.h"
#include "kernels/recurrent/cuda/persistent/arguments.h"
#include "kernels/recurrent/cuda/persistent_grid/pack_kernels.h"
#include "runtime/cuda/cuda_device.h"

/// Which layers the whole GPU holds, how their rows are spread over groups of blocks, and the
/// launch.
namespace sluice::kernels::recurrent::cuda::persistent_grid {

/// The reason if a layer of this shape can't be launched on this GPU, or is slower this way, in one
/// sentence. Asks the GPU how many blocks it runs at once.
std::optional<std::string> refuse(const Descriptor& descriptor,
                                  const runtime::cuda::CudaDevice& device);

/// Whether a layer that a cluster could hold is faster spread over the whole GPU. That is float32
/// with few rows, because a cluster takes as long for one row as for eight.
bool beats_cluster(const Descriptor& descriptor);

/// How a layer's weights are packed for forward, and for backward.
Residence forward_residence(const Descriptor& descriptor);
Residence backward_residence(const Descriptor& descriptor);

/// Bytes of the buffers through which blocks exchange values.
std::int64_t forward_exchange_bytes(const Descriptor& descriptor);
std::int64_t backward_exchange_bytes(const Descriptor& descriptor);

/// `descriptor` is the plan's. `exchange` has that many bytes and need not be initialized.
void launch(const LaunchQueue& queue, const Descriptor& descriptor,
            const persistent::LayerForward& args, void* exchange);
void launch(const LaunchQueue& queue, const Descriptor& descriptor,
            const persistent::LayerBackward& args, void* exchange);

}  // namespace sluice::kernels::recurrent::cuda::persistent_grid
