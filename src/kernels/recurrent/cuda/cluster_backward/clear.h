#pragma once

#include "kernels/recurrent/cuda/cluster_backward/block.h"

namespace sluice::kernels::recurrent::cuda::cluster_backward {

/// Past the end of all rows, after so many steps, there are no gradients of gates, of `Factor`.
/// `thread`: of those that evaluate cells.
template <typename Factor, typename Shape>
__device__ void clear_gates(const LaunchArgs& launch, const Part& part, int steps, int thread) {
  const LayerBackward& args = launch.layer;
  const Extent& extent = args.extent;
  constexpr int kWords = Shape::kUnits / 8;  // of 16 bytes
  const std::int64_t width = std::int64_t{extent.directions} * 4 * extent.hidden;
  for (int time = steps; time < extent.time; ++time) {
    for (int i = thread; i < launch.rows * 4 * kWords; i += kCellWarps * 32) {
      const int row = part.first_row + i / (4 * kWords), gate = i / kWords % 4;
      const int unit = part.block * Shape::kUnits + i % kWords * 8;
      if (row >= extent.rows || unit >= extent.hidden) continue;
      if (launch.row_scales && gate == 0 && unit == 0) {
        launch.row_scales[static_cast<std::int64_t>(time) * extent.rows + row] = 0;
      }
      Factor* to = static_cast<Factor*>(args.d_input) +
                   (static_cast<std::int64_t>(time) * extent.rows + row) * width +
                   (part.direction * 4 + gate) * extent.hidden + unit;
      *reinterpret_cast<uint4*>(to) = {};
    }
  }
}

}  // namespace sluice::kernels::recurrent::cuda::cluster_backward
