#pragma once

#include <optional>
#include <string>

#include "kernels/recurrent/cuda/cell_kernels.h"
#include "kernels/recurrent/cuda/launch_queue.h"
#include "kernels/recurrent/cuda/wide/arguments.h"
#include "runtime/cuda/cuda_device.h"

/// Which layers fit, how they are spread over the GPU, and the launch.
namespace sluice::kernels::recurrent::cuda::wide {

/// The reason if a layer of this shape can't be launched on this GPU, or is slower this way, in one
/// sentence. Asks the GPU how many clusters it runs at once.
std::optional<std::string> refuse(const Descriptor& descriptor,
                                  const runtime::cuda::CudaDevice& device);

/// The same for its backward pass alone.
std::optional<std::string> refuse_backward(const Descriptor& descriptor,
                                           const runtime::cuda::CudaDevice& device);

/// Stages of the ring that the depth of a block's products takes.
std::int64_t forward_stages(const Descriptor& descriptor);
std::int64_t backward_stages(const Descriptor& descriptor);

/// Bytes of global memory that a launch of up to the descriptor's rows needs, in both passes.
std::int64_t exchange_bytes(const Descriptor& descriptor);

/// Whether forward of a stack is faster in halves of the sequence, on half of the GPU each: a
/// layer's second half overlaps with the first half of the layer above
/// (docs/performance/persistent-wide.md).
bool halves_pay(const Descriptor& descriptor, std::int64_t time);

/// Prepares `count` exchanges for forward launches with so many rows. They are exchange_bytes
/// apart.
void clear_exchanges(cudaStream_t stream, const Descriptor& descriptor, std::int64_t rows,
                     std::int64_t count, void* first);

/// Launches all directions of a layer, or a piece of its only one. `abreast`: how many launches
/// share the GPU. `saved_by_gate`: forward saves gates as [time, rows, 4, H], for a backward pass
/// that runs step by step; otherwise as [time, rows, H, 4]. `exchange` has exchange_bytes.
/// Forward's must come from clear_exchanges; backward's need not be initialized.
void launch(const LaunchQueue& queue, const CellKind& kind, const LayerForward& args,
            std::int64_t abreast, bool saved_by_gate, void* exchange);
void launch(const LaunchQueue& queue, const CellKind& kind, const LayerBackward& args,
            bool saved_by_gate, void* exchange);

/// Rows of each launch of a layer's backward pass; the last may have fewer. The launches may be
/// queued one by one (LaunchQueue), in their order.
std::int64_t backward_launch_rows(const Descriptor& descriptor, std::int64_t rows);
/// Multiprocessors that a backward launch with so many rows takes.
std::int64_t backward_processors(const Descriptor& descriptor, std::int64_t rows);
/// Queues a kernel that ends when the backward launch with this exchange, which must have begun,
/// has written the gate gradients of its first `turns` backward steps, at most all but two. The
/// batch must have no row lengths, and the launch must leave a multiprocessor free.
void await_turns(cudaStream_t stream, const Descriptor& descriptor, std::int64_t rows,
                 std::int64_t turns, const void* exchange);

}  // namespace sluice::kernels::recurrent::cuda::wide
