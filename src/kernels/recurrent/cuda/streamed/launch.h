#pragma once

#include <optional>
#include <string>

#include "kernels/recurrent/cuda/cell_kernels.h"
#include "kernels/recurrent/cuda/launch_queue.h"
#include "kernels/recurrent/cuda/streamed/arguments.h"
#include "runtime/cuda/cuda_device.h"

/// Which layers can run, how they are spread over the GPU, and the launch.
namespace sluice::kernels::recurrent::cuda::streamed {

/// Why a layer of this shape can't be launched on this GPU, in one sentence. Asks the GPU how many
/// clusters it runs at once.
std::optional<std::string> refuse(const Descriptor& descriptor,
                                  const runtime::cuda::CudaDevice& device);

/// How a layer lies on the GPU in one pass.
Spread forward_spread(const Descriptor& descriptor);
Spread backward_spread(const Descriptor& descriptor);

/// Bytes of global memory that launches of up to the descriptor's rows need.
std::int64_t forward_exchange_bytes(const Descriptor& descriptor);
std::int64_t backward_exchange_bytes(const Descriptor& descriptor);

/// Launches a layer; `exchange` has its pass's bytes, of which nothing is expected.
/// `saved_by_gate`: forward leaves what backward reads as [time, rows, 4, H], for steps of their
/// own; launches of both passes take [time, rows, H, 4].
void launch(const LaunchQueue& queue, const CellKind& kind, const LayerForward& args,
            bool saved_by_gate, void* exchange);
void launch(const LaunchQueue& queue, const CellKind& kind, const LayerBackward& args,
            void* exchange);

}  // namespace sluice::kernels::recurrent::cuda::streamed
