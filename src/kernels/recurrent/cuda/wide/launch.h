#pragma once

#include <optional>
#include <string>

#include "kernels/recurrent/cuda/cell_kernels.h"
#include "kernels/recurrent/cuda/launch_queue.h"
#include "kernels/recurrent/cuda/wide/arguments.h"
#include "runtime/cuda/cuda_device.h"

/// Which layers fit, how they are spread over the GPU, and the launch.
namespace sluice::kernels::recurrent::cuda::wide {

/// Why a layer of this shape can't be launched on this GPU, in one sentence. Asks the GPU how many
/// clusters it runs at once.
std::optional<std::string> refuse(const Descriptor& descriptor,
                                  const runtime::cuda::CudaDevice& device);

/// Why its backward alone can't be.
std::optional<std::string> refuse_backward(const Descriptor& descriptor,
                                           const runtime::cuda::CudaDevice& device);

/// Stages of the ring that the depth of the products takes.
std::int64_t forward_stages(const Descriptor& descriptor);
std::int64_t backward_stages(const Descriptor& descriptor);

/// Bytes of global memory that a launch of up to the descriptor's rows needs, in both passes.
std::int64_t exchange_bytes(const Descriptor& descriptor);

/// Whether a stack is faster forward in halves of the sequence, each layer's second half beside the
/// first one of the layer above, on half of the GPU (docs/performance/persistent-wide.md).
bool halves_pay(const Descriptor& descriptor, std::int64_t time);

/// Prepares `count` exchanges for launches of forward with so many rows, each exchange_bytes behind
/// the one before.
void clear_exchanges(cudaStream_t stream, const Descriptor& descriptor, std::int64_t rows,
                     std::int64_t count, void* first);

/// Launches all directions of a layer, or a piece of its only one. `abreast`: how many launches
/// share the GPU. `saved_by_gate`: forward leaves what backward reads as [time, rows, 4, H], for
/// steps of their own; launches of both passes take [time, rows, H, 4]. `exchange` has
/// exchange_bytes: forward's comes from clear_exchanges, of backward's nothing is expected.
void launch(const LaunchQueue& queue, const CellKind& kind, const LayerForward& args,
            std::int64_t abreast, bool saved_by_gate, void* exchange);
void launch(const LaunchQueue& queue, const CellKind& kind, const LayerBackward& args,
            bool saved_by_gate, void* exchange);

/// Rows that each of the launches of a layer's backward is for, but the last one may have fewer.
/// They may be queued one by one (LaunchQueue), in their order.
std::int64_t backward_launch_rows(const Descriptor& descriptor, std::int64_t rows);
/// Multiprocessors that a launch of backward with so many rows takes.
std::int64_t backward_processors(const Descriptor& descriptor, std::int64_t rows);
/// Queues a kernel that ends when the launch of backward that has begun with this exchange has
/// written the gates' gradients of its first `turns` steps back, at most all but two. Rows must
/// have no lengths, and the launch must leave a multiprocessor free.
void await_turns(cudaStream_t stream, const Descriptor& descriptor, std::int64_t rows,
                 std::int64_t turns, const void* exchange);

}  // namespace sluice::kernels::recurrent::cuda::wide
