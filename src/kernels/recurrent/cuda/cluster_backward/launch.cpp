#include "kernels/recurrent/cuda/cluster_backward/launch.h"

#include <fmt/format.h>

#include "base/check.h"
#include "kernels/recurrent/cuda/cluster_backward/kernels.h"
#include "kernels/recurrent/cuda/cluster_backward/memory.h"
#include "kernels/recurrent/cuda/cluster_launch.h"
#include "kernels/recurrent/cuda/tensor_map.h"
#include "runtime/cuda/current_device.h"

namespace sluice::kernels::recurrent::cuda::cluster_backward {
namespace {

/// How a layer is launched.
struct Spread {
  int blocks;    ///< of a cluster
  int clusters;  ///< of a direction
  int rows;      ///< of a cluster
};

int blocks_for(std::int64_t hidden) {
  return hidden <= FourBlocks::kHidden ? FourBlocks::kBlocks : EightBlocks::kBlocks;
}

/// Nothing if a cluster would have more rows than fit.
std::optional<Spread> spread_of(std::int64_t hidden, std::int64_t rows, std::int64_t directions) {
  const int blocks = blocks_for(hidden);
  const std::int64_t most = clusters_at_once(blocks) / directions;
  const std::int64_t each = (rows + most - 1) / most;
  if (each > kRows) return std::nullopt;
  const std::int64_t clusters = (rows + each - 1) / each;
  return Spread{blocks, static_cast<int>(clusters), static_cast<int>(each)};
}

const Kernels& kernels_of(DType storage) {
  if (storage == DType::kFloat32) return lstm_tf32;
  SLUICE_ASSERT(storage == DType::kBFloat16 || storage == DType::kFloat16);
  return storage == DType::kBFloat16 ? lstm_bf16 : lstm_f16;
}

template <typename Shape>
int shared_bytes(DType storage) {
  return storage == DType::kFloat32 ? BlockMemory<Shape, 4>::kBytes : BlockMemory<Shape, 2>::kBytes;
}

ClusterLaunch launch_of(DType storage, const Spread& spread, std::int64_t directions) {
  const Kernels& kernels = kernels_of(storage);
  const bool four = spread.blocks == FourBlocks::kBlocks;
  const int bytes = four ? shared_bytes<FourBlocks>(storage) : shared_bytes<EightBlocks>(storage);
  return {four ? kernels.four : kernels.eight,
          {spread.blocks, directions * spread.clusters * spread.blocks, kThreads, bytes}};
}

Maps maps_of(DType storage, const LayerBackward& args, int direction, std::int64_t each) {
  const Extent& extent = args.extent;
  const std::int64_t time = extent.time, rows = extent.rows, hidden = extent.hidden;
  const std::int64_t directions = extent.directions, width = directions * 4 * hidden;
  const auto element = static_cast<std::int64_t>(base::size_of(storage));
  // Elements of a line of 128 bytes.
  const std::int64_t saved_box = 128 / element;
  const auto of_direction = [&](const void* array, std::int64_t each_direction) {
    return static_cast<const std::byte*>(array) + direction * each_direction * element;
  };
  Maps maps{};
  maps.saved = make_tensor_map(
      storage, args.saved[direction],
      {{4 * hidden, 1, saved_box}, {rows, 4 * hidden, each}, {time, rows * 4 * hidden, 1}});
  maps.c = make_tensor_map(
      DType::kFloat32, args.c_states[direction],
      {{hidden, 1, kChunkUnits}, {rows, hidden, each}, {time + 1, rows * hidden, 1}});
  if (args.dy) {
    maps.dy = make_tensor_map(storage, of_direction(args.dy, hidden),
                              {{hidden, 1, kChunkUnits},
                               {rows, directions * hidden, each},
                               {time, rows * directions * hidden, 1}});
  }
  // Those of TF32 are float16, of a layer with one direction.
  maps.d_gates = make_tensor_map(
      storage == DType::kFloat32 ? DType::kFloat16 : storage,
      of_direction(args.d_input, 4 * hidden),
      {{hidden, 1, kChunkUnits}, {4, hidden, 1}, {rows, width, each}, {time, rows * width, 1}});
  return maps;
}

}  // namespace

std::optional<std::string> refuse(const Descriptor& descriptor,
                                  const runtime::cuda::CudaDevice& device) {
  if (!device.gpu().code.hopper) {
    return "it needs a GPU of compute capability 9.0 that runs kernels compiled for it";
  }
  if (!descriptor.training) return "it differs from persistent-wide in backward alone";
  if (descriptor.cell != CellType::kLstm) return "its backward is that of an LSTM";
  if (!descriptor.tf32 && descriptor.dtype != DType::kBFloat16 &&
      descriptor.dtype != DType::kFloat16) {
    return "its backward computes bfloat16, float16 and TF32";
  }
  if (descriptor.projects()) return "it has no projection";
  if (descriptor.tf32 && descriptor.directions > 1) {
    return "its backward in TF32 is that of one direction";
  }
  if (descriptor.tf32 && descriptor.input % 8 != 0) {
    return fmt::format("{} inputs are no multiple of 8, as its gradients in TF32 want",
                       descriptor.input);
  }
  const std::int64_t hidden = descriptor.hidden;
  if (hidden > EightBlocks::kHidden) {
    return fmt::format("a cluster holds the recurrent weights of {} units, not of {}",
                       EightBlocks::kHidden, hidden);
  }
  constexpr std::int64_t kFewestUnits = 256;
  if (hidden <= kFewestUnits) return "so few units leave most of a cluster idle";
  // In 16 bits: TMA needs rows that begin at multiples of 16 bytes.
  constexpr std::int64_t kAligned = 8;
  if (hidden % kAligned != 0) {
    return fmt::format("{} units are no multiple of {}", hidden, kAligned);
  }
  const auto spread = spread_of(hidden, descriptor.rows, descriptor.directions);
  if (!spread) {
    return fmt::format("its clusters take {} rows at once, not {}",
                       clusters_at_once(blocks_for(hidden)) / descriptor.directions * kRows,
                       descriptor.rows);
  }
  // A step takes as long with fewer rows.
  constexpr int kFewestRows = kRows / 2 + 1;
  if (spread->rows < kFewestRows) return "with so few rows other launches are faster";
  const runtime::cuda::CurrentDevice current(device.gpu().ordinal);
  const int clusters = launch_of(descriptor.dtype, *spread, descriptor.directions).at_once();
  const std::int64_t wanted = descriptor.directions * spread->clusters;
  if (clusters >= wanted) return std::nullopt;
  return fmt::format("this GPU runs {} of its {} clusters of {} blocks at once", clusters, wanted,
                     spread->blocks);
}

std::int64_t sums_of(const Descriptor& descriptor, std::int64_t rows) {
  static_assert(kMostSums == clusters_at_once(FourBlocks::kBlocks) * kSumWarps);
  const auto spread = spread_of(descriptor.hidden, rows, descriptor.directions);
  return std::int64_t{spread.value().clusters} * kSumWarps;
}

void launch(const LaunchQueue& queue, const CellKind& kind, const LayerBackward& args,
            float* row_scales, float* const (&gate_sums)[2]) {
  const Extent& extent = args.extent;
  const Spread spread = spread_of(extent.hidden, extent.rows, extent.directions).value();
  LaunchArgs all{};
  all.layer = args;
  all.row_scales = row_scales;
  all.clusters = spread.clusters;
  all.rows = spread.rows;
  for (int d = 0; d < extent.directions; ++d) {
    all.gate_sums[d] = gate_sums[d];
    all.maps[d] = maps_of(kind.storage, args, d, spread.rows);
  }
  void* values[]{&all};
  launch_of(kind.storage, spread, extent.directions).run(queue, values);
}

}  // namespace sluice::kernels::recurrent::cuda::cluster_backward
