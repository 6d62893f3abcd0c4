#include "kernels/recurrent/cuda/fused_step.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/recurrent/arguments.h"
#include "kernels/recurrent/cuda/fused_step_kernels.h"

namespace sluice::kernels::recurrent::cuda {
namespace {

std::int64_t parts(std::int64_t extent, std::int64_t part) { return (extent + part - 1) / part; }

}  // namespace

std::optional<StepGeometry> step_geometry(const Descriptor& descriptor, StepPass pass,
                                          std::int64_t rows, std::int64_t lanes,
                                          const runtime::cuda::GpuProperties& gpu) {
  constexpr std::int64_t kLineBytes = 128, kTileRows = 64;
  const std::int64_t hidden = descriptor.hidden;
  const auto element = static_cast<std::int64_t>(base::size_of(descriptor.dtype));
  if (refuse_unusual_cell(descriptor)) return std::nullopt;
  if (!gpu.code.hopper || descriptor.projects() || hidden * element % kCopyBytes != 0) {
    return std::nullopt;
  }
  // Measured on an H200 (docs/performance/ladder.md), with 1 to 512 rows of 256 to 4096 units: the
  // kernel wins forward up to a tile for a processor, backward up to a tile for eight, and for four
  // if they are of several lanes.
  const bool backward = pass == StepPass::kBackward;
  const std::int64_t tiles = parts(hidden, backward ? 64 : 16) * parts(rows, kTileRows);
  const std::int64_t all = lanes * tiles, processors = gpu.processors;
  if (backward ? 8 * tiles > processors || 4 * all > processors : all > processors) {
    return std::nullopt;
  }
  // More blocks to a tile cost more to bring together than their shorter loops save, unless half of
  // the GPU would have nothing to do.
  const bool input_too = pass == StepPass::kForwardWithInput;
  const std::int64_t cluster = backward ? (8 * all <= processors ? 8 : 4)
                               : input_too && 4 * all <= processors ? 4
                                                                    : 2;
  // As many as let two blocks share a processor, so that the next step's is there early.
  constexpr std::int64_t kMostStages = 6;
  const std::int64_t depth = (backward ? descriptor.gates() : 1) * hidden * element;
  const std::int64_t sharers = input_too ? cluster / 2 : cluster;
  const std::int64_t chunks = parts(parts(depth, kLineBytes), sharers);
  return StepGeometry{static_cast<int>(cluster),
                      static_cast<int>(std::clamp<std::int64_t>(chunks, 2, kMostStages))};
}

const StepKernels& step_kernels(base::DType storage) {
  if (storage == base::DType::kFloat32) return kFloat32Steps;
  if (storage == base::DType::kBFloat16) return kBFloat16Steps;
  SLUICE_ASSERT(storage == base::DType::kFloat16);
  return kFloat16Steps;
}

}  // namespace sluice::kernels::recurrent::cuda
