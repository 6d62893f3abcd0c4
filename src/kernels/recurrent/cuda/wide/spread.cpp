#include "kernels/recurrent/cuda/wide/spread.h"

#include <algorithm>
#include <array>

#include "kernels/recurrent/cuda/cluster_launch.h"
#include "kernels/recurrent/cuda/wide/block_memory.h"

namespace sluice::kernels::recurrent::cuda::wide {
namespace {

/// Blocks of a cluster.
constexpr std::array kForwardSizes{4, 2}, kBackwardSizes{8, 4};

constexpr int kSharedBytes = 232448;  ///< that a block may have on Hopper
/// Number of backward launches for `tiles` tiles per block. More than four tiles take at least two
/// launches, so that the input gradients of the first one's rows are multiplied while the second
/// runs. A launch has up to eight tiles in 16 bits: more tiles save launches, but their states take
/// memory from the ring (docs/performance/persistent-wide.md). Otherwise it has up to four.
std::int64_t backward_launches(DType storage, std::int64_t tiles) {
  constexpr std::int64_t kManyTiles = 4, kMostTiles = 8, kFewLaunches = 2;
  const std::int64_t launches = parts(tiles, kManyTiles);
  if (storage == DType::kFloat32) return launches;
  return std::max(parts(tiles, kMostTiles), std::min(launches, kFewLaunches));
}

/// The fewest tiles of a block with which TMA also reads the inputs of backward's cells. With
/// fewer, a step waits for the other blocks' gradients, whose copies queue behind those of the
/// inputs (docs/performance/persistent-wide.md). Rows of kBoxUnits units begin at multiples of 16
/// bytes.
constexpr std::int64_t kFewestBoxTiles = 3, kBoxUnits = 8;
/// Up to so many stages, the ring gains more from memory than reading further ahead for cells does.
constexpr int kNeededRing = 4;

/// Spreads over clusters of that size; nothing if not even one group of rows runs at once.
std::optional<Spread> spread_over(int cluster, Pass pass, DType storage, std::int64_t gates,
                                  std::int64_t hidden, std::int64_t rows, std::int64_t directions,
                                  std::int64_t abreast) {
  const std::int64_t chunks = chunks_of(hidden), across = chunks * kBlocksOfChunk;
  if (across % cluster != 0) return std::nullopt;
  const std::int64_t groups = clusters_at_once(cluster) / abreast * cluster / (across * directions);
  if (groups == 0) return std::nullopt;
  const std::int64_t tiles = parts(rows, kTileRows);
  const std::int64_t most = parts(tiles, std::min(tiles, groups));
  const std::int64_t launches = pass == Pass::kForward ? 1 : backward_launches(storage, most);
  const std::int64_t each = parts(most, launches);
  Spread spread{};
  spread.launches = static_cast<int>(launches);
  spread.cluster = cluster;
  spread.directions = static_cast<int>(directions);
  Geometry& geometry = spread.geometry;
  geometry.chunks = static_cast<std::int32_t>(chunks);
  geometry.depth_chunks = static_cast<std::int32_t>(depth_chunks(pass, gates, hidden));
  geometry.tiles = static_cast<std::int32_t>(tiles);
  geometry.tiles_each = static_cast<std::int32_t>(each);
  geometry.groups = static_cast<std::int32_t>(std::min(groups, parts(tiles, each)));
  geometry.sharers = pass == Pass::kForward ? cluster : cluster / kBlocksOfChunk;
  geometry.lines = static_cast<std::int32_t>(tiles > 1 ? kTileRows : parts(rows, 8) * 8);
  geometry.stages = static_cast<std::int32_t>(stages_of(pass, gates, hidden));
  geometry.boxes = pass == Pass::kBackward && each >= kFewestBoxTiles && hidden % kBoxUnits == 0 &&
                   geometry.shared_stages() == 0;
  // A second buffer is worth less than the ring where weights take half of the memory.
  geometry.sums = geometry.shared_stages() > 0 ? 1 : 2;
  return spread;
}

/// Gives the ring as many stages as there is memory for.
void fill_ring(Geometry& geometry, const CellBytes& cells) {
  geometry.ring = 0;
  const int rest = kSharedBytes - BlockMemory(geometry, cells).bytes;
  geometry.ring = std::min(kMostRing, rest / geometry.stage_bytes());
}

}  // namespace

std::int64_t depth_chunks(Pass pass, std::int64_t gates, std::int64_t hidden) {
  return (pass == Pass::kForward ? 1 : gates) * chunks_of(hidden);
}
std::int64_t stages_of(Pass pass, std::int64_t gates, std::int64_t hidden) {
  const std::int64_t split = pass == Pass::kForward ? 1 : kBlocksOfChunk;
  return std::max<std::int64_t>(parts(depth_chunks(pass, gates, hidden), split * kStageChunks),
                                kFewestStages);
}

std::optional<Spread> spread_of(Pass pass, DType storage, std::int64_t gates, std::int64_t hidden,
                                std::int64_t rows, std::int64_t directions, std::int64_t abreast) {
  std::optional<Spread> best;
  for (const int cluster : pass == Pass::kForward ? kForwardSizes : kBackwardSizes) {
    const auto spread =
        spread_over(cluster, pass, storage, gates, hidden, rows, directions, abreast);
    if (!spread) continue;
    if (!best || spread->most_tiles() < best->most_tiles()) best = spread;
  }
  return best;
}

int fill_memory(Geometry& geometry, Pass pass, DType storage) {
  const int element = static_cast<int>(base::size_of(storage));
  const CellBytes cells = pass == Pass::kForward ? forward_bytes(element) : backward_bytes(element);
  geometry.ahead = 1;
  fill_ring(geometry, cells);
  const int needed = std::min(geometry.ring, kNeededRing);
  geometry.ahead = kMostAhead;
  fill_ring(geometry, cells);
  while (geometry.ring < needed) {
    --geometry.ahead;
    fill_ring(geometry, cells);
  }
  return BlockMemory(geometry, cells).bytes;
}

}  // namespace sluice::kernels::recurrent::cuda::wide
