#include "kernels/recurrent/cuda/stack_step/launch.h"

#include <algorithm>
#include <limits>

#include "kernels/matmul/cuda/by_parts/arguments.h"

namespace sluice::kernels::recurrent::cuda::stack_step {
namespace {

/// Numbers of a row, a step or a matrix, which kernels count by int.
constexpr std::int64_t kMostNumbers = std::numeric_limits<int>::max();

bool can_run(const Descriptor& descriptor, std::int64_t rows,
             const runtime::cuda::GpuProperties& gpu) {
  constexpr std::int64_t kStageDepth = matmul::cuda::by_parts::kStageDepth;
  const std::int64_t hidden = descriptor.hidden;
  return gpu.code.hopper && descriptor.dtype == DType::kFloat32 &&
         descriptor.cell == CellType::kLstm && !descriptor.has_extras() && !descriptor.projects() &&
         descriptor.directions == 1 && hidden % kStageDepth == 0 &&
         rows * 4 * hidden <= kMostNumbers && steps_at_a_time(hidden, gpu) > 0;
}

}  // namespace

bool wins(const Descriptor& descriptor, std::int64_t rows,
          const runtime::cuda::GpuProperties& gpu) {
  if (!can_run(descriptor, rows, gpu)) return false;
  // Measured on an H200 (docs/performance/training-step.md), with 128 to 1024 rows of 256 to 1024
  // units in 2 to 4 layers. Layers on streams of their own are faster if half of the GPU stays
  // empty either way, or if each kernel reads its weights from memory. With fewer rows, most of a
  // tile is empty.
  const std::int64_t layers = descriptor.layers, hidden = descriptor.hidden;
  const std::int64_t tiles = (rows + kTileRows - 1) / kTileRows * (hidden / kTileUnits);
  const auto weights = static_cast<std::size_t>(layers * 8 * hidden * hidden) * sizeof(float);
  return layers > 1 && rows >= kTileRows && 2 * layers * tiles >= gpu.processors &&
         weights <= gpu.cache_bytes;
}

std::int64_t steps_at_a_time(std::int64_t hidden, const runtime::cuda::GpuProperties& gpu) {
  return std::min<std::int64_t>(kMostSteps, gpu.processors / (hidden / kTileUnits));
}

}  // namespace sluice::kernels::recurrent::cuda::stack_step
