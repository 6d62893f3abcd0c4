#include "kernels/recurrent/cuda/streamed/launch.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/recurrent/cuda/cluster_launch.h"
#include "kernels/recurrent/cuda/streamed/kernels.h"
#include "runtime/cuda/check.h"
#include "runtime/cuda/current_device.h"

namespace sluice::kernels::recurrent::cuda::streamed {
namespace {

using runtime::cuda::check;

enum class Pass { kForward, kBackward };

/// Chunks of the ring of values: up to so many gain more than further weights on chip. Then the
/// places of the ring of weights: more if they come from memory, as not all wait for values then.
constexpr int kNeededRing = 4, kWeightRing = 2, kMemoryRing = 3;
/// Streamed weights that L2 holds from step to step, and the part that is kept there of more.
/// Measured on an H200: docs/performance/persistent-streamed.md.
constexpr std::int64_t kCachedBytes = std::int64_t{40} << 20, kKeptBytes = std::int64_t{32} << 20;

std::int32_t parts(std::int64_t extent, std::int64_t part) {
  return static_cast<std::int32_t>((extent + part - 1) / part);
}

/// Divides a block's shared memory: all weights stay there if they fit, otherwise as many as the
/// rings leave memory for. False if not even the rings fit.
bool divide_memory(Geometry& geometry) {
  const int needed = std::min(geometry.depth, kNeededRing), bytes = geometry.weight_bytes();
  geometry.ring = needed;
  geometry.streamed = geometry.weight_ring = geometry.kept = 0;
  if (BlockMemory(geometry).left() < 0) {
    geometry.streamed = geometry.others();
    geometry.weight_ring = geometry.cluster == 1 ? kMemoryRing : kWeightRing;
    const int left = BlockMemory(geometry).left();
    if (left < 0) return false;
    geometry.streamed -= left / bytes;
    const std::int64_t all = std::int64_t{geometry.blocks()} * bytes;
    if (geometry.cluster == 1 && all * geometry.streamed > kCachedBytes) {
      geometry.kept = static_cast<std::int32_t>(kKeptBytes / all);
    }
  }
  geometry.streamed_ones = 0;
  for (int i = 0; i < geometry.others(); ++i) {
    const bool streamed = i * geometry.streamed % geometry.others() < geometry.streamed;
    geometry.streamed_ones |= std::uint64_t{streamed} << i;
  }
  const int more = BlockMemory(geometry).left() / geometry.chunk_bytes();
  geometry.ring = std::min({geometry.depth, kMostRing, needed + more});
  return true;
}

/// Nothing if its blocks can't multiply so many units.
std::optional<Spread> spread_of(Pass pass, int cluster, std::int64_t gates, std::int64_t hidden) {
  const bool forward = pass == Pass::kForward;
  Spread spread{};
  spread.chunks = parts(hidden, kChunkUnits);
  spread.depth_chunks = spread.chunks * static_cast<std::int32_t>(forward ? 1 : gates);
  spread.cluster = cluster;
  spread.depth = std::max(parts(spread.depth_chunks, cluster), register_chunks(false));
  spread.pairs = parts(hidden, std::int64_t{2} * cluster * clusters_at_once(cluster));
  spread.clusters = parts(hidden, std::int64_t{spread.units()} * cluster);
  spread.slots = spread.pairs * static_cast<std::int32_t>(forward ? gates : 1);
  const bool lstm_forward = forward && gates == 4;
  const int beside = forward && gates == 3 ? kBesideSlots : 0;
  const bool few = spread.pairs <= kFewCellGroups * kWarpPairs;
  spread.cell_groups = few || !lstm_forward ? kFewCellGroups : kMoreCellGroups;
  if (spread.pairs > spread.cell_groups * kWarpPairs ||
      spread.cluster * spread.slots > kProductGroups * kTileSlots + beside) {
    return std::nullopt;
  }
  return spread;
}

std::optional<Spread> spread_of(Pass pass, std::int64_t gates, std::int64_t hidden) {
  if (pass == Pass::kBackward) return spread_of(pass, kBackwardCluster, gates, hidden);
  const auto spread = spread_of(pass, kForwardCluster, gates, hidden);
  return spread ? spread : spread_of(pass, 1, gates, hidden);
}
std::optional<Spread> spread_of(Pass pass, const Descriptor& descriptor) {
  return spread_of(pass, descriptor.gates(), descriptor.hidden);
}

/// Nothing if a block's memory is too small for the rows.
std::optional<Geometry> geometry_of(const Spread& spread, std::int64_t rows) {
  Geometry geometry{};
  static_cast<Spread&>(geometry) = spread;
  geometry.lines = parts(rows, 8) * 8;
  if (!divide_memory(geometry)) return std::nullopt;
  return geometry;
}

const void* kernel_of(const CellKind& kind, Pass pass, const Spread& spread) {
  const Kernels& kernels = kernels_of(kind);
  if (pass == Pass::kBackward) return kernels.backward;
  const bool usual = spread.cell_groups == kFewCellGroups && !spread.has_beside();
  return usual ? kernels.forward : kernels.forward_else;
}

/// A launch whose blocks all run at once or not at all.
class Launch : public ClusterLaunch {
 public:
  Launch(const void* kernel, const Spread& spread)
      : ClusterLaunch(kernel, {spread.cluster, spread.blocks(), block_threads(spread.cell_groups),
                               BlockMemory::kBytes}) {
    add(cudaLaunchAttributeCooperative).cooperative = 1;
  }
};

std::int64_t counters_bytes(const Geometry& geometry) {
  return std::int64_t{geometry.chunks} * kCounterBytes;
}
std::int64_t exchange_bytes(const Geometry& geometry) {
  return counters_bytes(geometry) +
         std::int64_t{2} * geometry.depth_chunks * geometry.chunk_bytes();
}

template <typename Args>
void launch_layer(const LaunchQueue& queue, const CellKind& kind, Pass pass, const Args& args,
                  bool saved_by_gate, void* exchange) {
  const Extent& extent = args.extent;
  const std::int64_t gates = kind.cell == CellType::kLstm ? 4 : 3;
  const Spread spread = spread_of(pass, gates, extent.hidden).value();
  Geometry geometry = geometry_of(spread, extent.rows).value();
  const void* kernel = kernel_of(kind, pass, spread);
  geometry.saved_by_gate = saved_by_gate;
  geometry.counters = static_cast<std::uint32_t*>(exchange);
  geometry.exchange = static_cast<std::byte*>(exchange) + counters_bytes(geometry);
  check(cudaMemsetAsync(exchange, 0, static_cast<std::size_t>(exchange_bytes(geometry)),
                        queue.stream),
        "clear the exchange of a recurrent layer");
  Args copy = args;
  void* values[]{&copy, &geometry};
  Launch(kernel, spread).run(queue, values);
}

/// The reason if this GPU doesn't run all blocks of a launch at once.
std::optional<std::string> refuse_blocks(const void* kernel, const Spread& spread) {
  const int clusters = Launch(kernel, spread).at_once();
  if (clusters >= spread.clusters) return std::nullopt;
  return fmt::format("this GPU runs {} of its {} clusters of {} blocks at once", clusters,
                     spread.clusters, spread.cluster);
}

}  // namespace

Spread forward_spread(const Descriptor& descriptor) {
  return spread_of(Pass::kForward, descriptor).value();
}
Spread backward_spread(const Descriptor& descriptor) {
  return spread_of(Pass::kBackward, descriptor).value();
}

std::int64_t forward_exchange_bytes(const Descriptor& descriptor) {
  return exchange_bytes(geometry_of(forward_spread(descriptor), descriptor.rows).value());
}
std::int64_t backward_exchange_bytes(const Descriptor& descriptor) {
  return exchange_bytes(geometry_of(backward_spread(descriptor), descriptor.rows).value());
}

std::optional<std::string> refuse(const Descriptor& descriptor,
                                  const runtime::cuda::CudaDevice& device) {
  if (!device.gpu().code.hopper) {
    return "it needs a GPU of compute capability 9.0 that runs kernels compiled for it";
  }
  if (descriptor.dtype != DType::kBFloat16 && descriptor.dtype != DType::kFloat16) {
    return "it computes bfloat16 and float16";
  }
  if (descriptor.projects()) return "it has no projection";
  if (descriptor.directions > 1) return "it runs one direction";
  if (descriptor.rows > kMostRows) {
    return fmt::format("it runs up to {} rows, not {}", kMostRows, descriptor.rows);
  }
  const runtime::cuda::CurrentDevice current(device.gpu().ordinal);
  for (const Pass pass : {Pass::kForward, Pass::kBackward}) {
    if (pass == Pass::kBackward && !descriptor.training) continue;
    const auto spread = spread_of(pass, descriptor);
    if (!spread || !geometry_of(*spread, descriptor.rows)) {
      return fmt::format("{} units are more than its blocks multiply", descriptor.hidden);
    }
    if (pass == Pass::kForward && spread->cluster == 1 && descriptor.layers > 1) {
      return "layers whose weights come from memory have only been measured one at a time";
    }
    const void* kernel = kernel_of({descriptor.cell, descriptor.dtype}, pass, *spread);
    if (auto reason = refuse_blocks(kernel, *spread)) return reason;
  }
  return std::nullopt;
}

void launch(const LaunchQueue& queue, const CellKind& kind, const LayerForward& args,
            bool saved_by_gate, void* exchange) {
  launch_layer(queue, kind, Pass::kForward, args, saved_by_gate, exchange);
}
void launch(const LaunchQueue& queue, const CellKind& kind, const LayerBackward& args,
            void* exchange) {
  launch_layer(queue, kind, Pass::kBackward, args, false, exchange);
}

}  // namespace sluice::kernels::recurrent::cuda::streamed
