#include "kernels/recurrent/cuda/cluster_wgmma/launch.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/recurrent/cuda/cluster_launch.h"
#include "kernels/recurrent/cuda/cluster_wgmma/block_memory.h"
#include "kernels/recurrent/cuda/cluster_wgmma/kernels.h"
#include "kernels/recurrent/cuda/forward_piece.h"
#include "kernels/recurrent/cuda/persistent/launch.h"
#include "kernels/recurrent/cuda/tensor_map.h"
#include "runtime/cuda/current_device.h"

namespace sluice::kernels::recurrent::cuda::cluster_wgmma {
namespace {

/// Clusters that run at once. They don't wait for each other, so fewer at once only take longer.
constexpr std::int64_t kClustersAtOnce = clusters_at_once(kBlocks);
constexpr int kSharedBytes = 232448;  ///< that a block may have on Hopper
/// With fewer units, half of a cluster's blocks would have none.
constexpr std::int64_t kFewestUnits = std::int64_t{kBlocks} * kGroupUnits + 1;
/// The fewest steps of tiles whose inputs are read ahead.
constexpr int kFewestAhead = 2;

std::int64_t parts(std::int64_t extent, std::int64_t part) { return (extent + part - 1) / part; }

/// The properties that determine a block's shared memory.
struct Width {
  int groups, gates;
  bool scaled;

  Width(const CellKind& kind, std::int64_t hidden)
      : groups(groups_for(hidden)),
        gates(kind.cell == CellType::kLstm ? 4 : 3),
        scaled(kind.storage == DType::kFloat32) {}
};

template <int kGroups>
int bytes_with(const Geometry& geometry, const Width& width) {
  if (width.scaled) return BlockMemory<kGroups, 4, true>(geometry).bytes;
  return width.gates == 4 ? BlockMemory<kGroups, 4, false>(geometry).bytes
                          : BlockMemory<kGroups, 3, false>(geometry).bytes;
}
int shared_bytes(const Geometry& geometry, const Width& width) {
  return width.groups == 2 ? bytes_with<2>(geometry, width) : bytes_with<3>(geometry, width);
}

CellKind kind_of(const Descriptor& descriptor) {
  return {descriptor.cell, descriptor.dtype, descriptor.tf32};
}

/// Spreads rows over as many clusters as run at once, in as few tiles as possible. The rest of the
/// shared memory holds inputs read ahead. Nothing if there are too many rows.
std::optional<Geometry> spread_of(std::int64_t rows, std::int64_t directions, const Width& width) {
  const std::int64_t each = parts(rows, std::min(rows, kClustersAtOnce / directions));
  const std::int64_t clusters = parts(rows, each);
  const std::int64_t tiles = parts(parts(rows, clusters), kMostTileRows);
  if (tiles > kMostTiles) return std::nullopt;
  Geometry geometry = in_tiles(static_cast<int>(clusters), static_cast<int>(parts(rows, clusters)),
                               static_cast<int>(tiles));
  geometry.ahead = kMostAhead;
  while (shared_bytes(geometry, width) > kSharedBytes) {
    if (--geometry.ahead < kFewestAhead) return std::nullopt;
  }
  return geometry;
}

/// The most rows that fit.
std::int64_t most_rows(const Descriptor& descriptor) {
  const Width width(kind_of(descriptor), descriptor.hidden);
  std::int64_t rows = kMostTiles * kMostTileRows * (kClustersAtOnce / descriptor.directions);
  while (!spread_of(rows, descriptor.directions, width)) --rows;
  return rows;
}

ClusterLaunch launch_of(const CellKind& kind, std::int64_t clusters, int groups, int bytes) {
  const void* kernel = kernels_of(kind)[static_cast<std::size_t>(groups - kFewestGroups)];
  return {kernel, {kBlocks, clusters * kBlocks, threads_of(groups), bytes}};
}

/// The map of the input products: boxes of a block's units, a direction's gates and eight rows.
CUtensorMap map_inputs(const LayerForward& args, int groups, int gates) {
  const Extent& extent = args.extent;
  const std::int64_t hidden = extent.hidden, width = extent.directions * gates * hidden;
  return make_tensor_map(DType::kFloat32, args.input,
                         {{kGroupUnits, 1, kGroupUnits},
                          {std::int64_t{extent.time} * extent.rows, width, kEight},
                          {std::int64_t{extent.directions} * gates, hidden, gates},
                          {hidden / kGroupUnits, kGroupUnits, groups}});
}

}  // namespace

std::optional<std::string> refuse(const Descriptor& descriptor,
                                  const runtime::cuda::CudaDevice& device) {
  if (!device.gpu().code.hopper) {
    return "it needs a GPU of compute capability 9.0 that runs kernels compiled for it";
  }
  const bool tf32 = descriptor.tf32 && descriptor.cell == CellType::kLstm;
  if (!tf32 && descriptor.dtype != DType::kBFloat16 && descriptor.dtype != DType::kFloat16) {
    return "it computes bfloat16 and float16, and of LSTMs TF32";
  }
  if (descriptor.projects()) return "it has no projection";
  if (descriptor.hidden > kMostUnits) {
    return fmt::format("a cluster holds the recurrent weights of {} units, not of {}", kMostUnits,
                       descriptor.hidden);
  }
  if (descriptor.hidden < kFewestUnits) return "so few units leave half of a cluster idle";
  if (descriptor.hidden % kGroupUnits != 0) {
    return fmt::format("its units come in sixteens, not {}", descriptor.hidden);
  }
  if (auto reason = persistent::refuse_size(descriptor)) return reason;
  if (const std::int64_t most = most_rows(descriptor); descriptor.rows > most) {
    return fmt::format("its clusters take {} rows at once, not {}", most, descriptor.rows);
  }
  const runtime::cuda::CurrentDevice current(device.gpu().ordinal);
  if (launch_of(kind_of(descriptor), 1, groups_for(descriptor.hidden), kSharedBytes).at_once() >
      0) {
    return std::nullopt;
  }
  return fmt::format("this GPU can't run {} blocks as a cluster", kBlocks);
}

void launch(const LaunchQueue& queue, const CellKind& kind, const LayerForward& args) {
  LayerForward piece = take_piece(args, kind.storage);
  const Extent& extent = piece.extent;
  const Width width(kind, extent.hidden);
  Geometry geometry = spread_of(extent.rows, extent.directions, width).value();
  const int bytes = shared_bytes(geometry, width);
  CUtensorMap inputs = map_inputs(piece, width.groups, width.gates);
  void* values[]{&piece, &geometry, &inputs};
  launch_of(kind, geometry.clusters * extent.directions, width.groups, bytes).run(queue, values);
}

}  // namespace sluice::kernels::recurrent::cuda::cluster_wgmma
