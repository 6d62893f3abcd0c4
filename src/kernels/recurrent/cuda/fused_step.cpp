#include "kernels/recurrent/cuda/fused_step.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/recurrent/cuda/fused_step_kernels.h"

namespace sluice::kernels::recurrent::cuda {
namespace {

std::int64_t tiles(std::int64_t extent, std::int64_t tile) { return (extent + tile - 1) / tile; }

}  // namespace

std::optional<StepGeometry> step_geometry(const Descriptor& descriptor, StepPass pass,
                                          std::int64_t rows, std::int64_t lanes,
                                          const runtime::cuda::CudaDevice& device) {
  constexpr int kHopper = 90;
  constexpr std::int64_t kCopyBytes = 16, kLineBytes = 128, kTileRows = 64;
  const std::int64_t hidden = descriptor.hidden;
  const auto element = static_cast<std::int64_t>(base::size_of(descriptor.dtype));
  if (device.capability() != kHopper || descriptor.projection > 0 ||
      hidden * element % kCopyBytes != 0) {
    return std::nullopt;
  }
  const bool backward = pass == StepPass::kBackward;
  const std::int64_t units = backward ? 32 : 16;
  const std::int64_t blocks = lanes * tiles(hidden, units) * tiles(rows, kTileRows);
  // More blocks to a tile cost more to bring together than their shorter loops save, unless that
  // fills a GPU which a single lane has for itself.
  std::int64_t cluster = backward ? 4 : 2;
  if (backward && lanes == 1 && 8 * blocks <= device.processors()) cluster = 8;
  // Two blocks share a processor, so that the next step's is there early; or one has it alone, and
  // the next step's goes elsewhere.
  const bool alone = 2 * blocks * cluster <= device.processors();
  const std::int64_t most = backward ? (alone ? 16 : 8) : (alone ? 12 : 6);
  const std::int64_t depth = (backward ? descriptor.gates() : 1) * hidden * element;
  const std::int64_t chunks = tiles(tiles(depth, kLineBytes), cluster);
  return StepGeometry{static_cast<int>(cluster),
                      static_cast<int>(std::clamp<std::int64_t>(chunks, 2, most))};
}

const StepKernels& step_kernels(base::DType storage) {
  if (storage == base::DType::kFloat32) return kFloat32Steps;
  if (storage == base::DType::kBFloat16) return kBFloat16Steps;
  SLUICE_ASSERT(storage == base::DType::kFloat16);
  return kFloat16Steps;
}

}  // namespace sluice::kernels::recurrent::cuda
