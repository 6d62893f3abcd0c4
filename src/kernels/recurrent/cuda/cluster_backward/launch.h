#pragma once

#include <optional>
#include <string>

#include "kernels/recurrent/cuda/cell_kernels.h"
#include "kernels/recurrent/cuda/cluster_backward/arguments.h"
#include "kernels/recurrent/cuda/launch_queue.h"
#include "runtime/cuda/cuda_device.h"

/// Which layers fit, how their rows are spread over clusters, and the launch.
namespace sluice::kernels::recurrent::cuda::cluster_backward {

/// The reason if backward of a layer of this shape can't be launched on this GPU, or is slower this
/// way, in one sentence. Asks the GPU whether it runs such clusters.
std::optional<std::string> refuse(const Descriptor& descriptor,
                                  const runtime::cuda::CudaDevice& device);

/// Rows of partial sums that a launch with `rows` rows writes, at most kMostSums.
inline constexpr std::int64_t kMostSums = 60;
std::int64_t sums_of(const Descriptor& descriptor, std::int64_t rows);

/// Launches backward of all directions of an LSTM layer. Forward left `saved` as [time, rows, H,
/// 4]; dy is aligned to 16 bytes. In TF32, args.d_input is float16 with each row multiplied by a
/// power of two, and `row_scales` [time, rows] has the factors that undo it; otherwise it is null.
void launch(const LaunchQueue& queue, const CellKind& kind, const LayerBackward& args,
            float* row_scales, float* const (&gate_sums)[2]);

}  // namespace sluice::kernels::recurrent::cuda::cluster_backward
