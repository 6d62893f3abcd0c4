#include "kernels/recurrent/cuda/wide/launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <type_traits>

#include "base/check.h"
#include "kernels/recurrent/cuda/cluster_launch.h"
#include "kernels/recurrent/cuda/forward_piece.h"
#include "kernels/recurrent/cuda/persistent/pack_kernels.h"
#include "kernels/recurrent/cuda/tensor_map.h"
#include "kernels/recurrent/cuda/wide/await.h"
#include "kernels/recurrent/cuda/wide/block_memory.h"
#include "kernels/recurrent/cuda/wide/kernels.h"
#include "kernels/recurrent/cuda/wide/spread.h"
#include "runtime/cuda/check.h"
#include "runtime/cuda/current_device.h"

namespace sluice::kernels::recurrent::cuda::wide {
namespace {

using runtime::cuda::check;

/// The most tiles per block: with more, one kernel per step measured faster
/// (docs/performance/persistent-wide.md).
std::int64_t most_tiles(Pass pass, const Descriptor& descriptor) {
  const bool forward = pass == Pass::kForward, gru = descriptor.cell == CellType::kGru;
  if (forward_stages(descriptor) == kMostStages) return forward && !gru ? 3 : 2;
  if (forward_stages(descriptor) > kRegisterStages) return forward && !gru ? 4 : 2;
  if (!forward) return 16;
  return gru ? 4 : 8;
}

const void* kernel_of(const Kernels& kernels, Pass pass, const Geometry& geometry) {
  const auto index =
      static_cast<std::size_t>(std::min(geometry.stages - kFewestStages, kKernels - 1));
  return pass == Pass::kForward ? kernels.forward[index] : kernels.backward[index];
}

/// The first part of the exchange, which must be zero at first: counters, and in TF32 the scales of
/// factors.
struct Flags {
  std::int64_t largest_h0, exponents, bytes;

  Flags(DType storage, std::int64_t directions, std::int64_t tiles, std::int64_t chunks)
      : largest_h0(directions * tiles * chunks * kCounterBytes),
        exponents(largest_h0 + kCounterBytes),
        bytes(exponents) {
    if (storage != DType::kFloat32) return;
    bytes += 2 * directions * tiles * kTileRows * chunks * kBlocksOfChunk * 2;
  }
};

/// A launch whose blocks all run at once or not at all.
class Launch : public ClusterLaunch {
 public:
  Launch(const void* kernel, const Spread& spread, int bytes)
      : ClusterLaunch(kernel, {spread.cluster, spread.blocks(), kThreads, bytes}) {
    add(cudaLaunchAttributeCooperative).cooperative = 1;
  }
};

BackwardBoxes boxes_of(const CellKind& kind, const LayerBackward& args) {
  const Extent& extent = args.extent;
  const std::int64_t time = extent.time, rows = extent.rows, hidden = extent.hidden;
  const auto element = static_cast<std::int64_t>(base::size_of(kind.storage));
  const auto map = [rows](DType type, const void* data, std::int64_t width, std::int64_t times,
                          std::int64_t box) {
    return make_tensor_map(type, data,
                           {{width, 1, box}, {rows, width, kTileRows}, {times, rows * width, 1}});
  };
  BackwardBoxes boxes{};
  for (int d = 0; d < extent.directions; ++d) {
    constexpr std::int64_t kSavedLine = 128;
    boxes.saved[d] = map(kind.storage, args.saved[d], 4 * hidden, time, kSavedLine / element);
    boxes.before[d] = kind.cell == CellType::kLstm
                          ? map(DType::kFloat32, args.c_states[d], hidden, time + 1, kUnits)
                          : map(kind.storage, args.h_states[d], hidden, time + 1, kUnits);
  }
  if (args.dy) boxes.dy = map(kind.storage, args.dy, extent.directions * hidden, time, kUnits);
  return boxes;
}

template <typename Args>
void launch_layer(const LaunchQueue& queue, const CellKind& kind, Pass pass, const Args& args,
                  std::int64_t abreast, bool saved_by_gate, void* exchange) {
  const Extent& extent = args.extent;
  const std::int64_t gates = kind.cell == CellType::kLstm ? 4 : 3;
  Spread spread =
      spread_of(pass, kind.storage, gates, extent.hidden, extent.rows, extent.directions, abreast)
          .value();
  Geometry& geometry = spread.geometry;
  const Kernels& kernels = kernels_of(kind);
  const void* kernel = kernel_of(kernels, pass, geometry);
  const int bytes = fill_memory(geometry, pass, kind.storage);
  geometry.saved_by_gate = saved_by_gate;
  const Flags flags(kind.storage, extent.directions, geometry.tiles, geometry.chunks);
  auto* memory = static_cast<std::byte*>(exchange);
  geometry.counters = reinterpret_cast<std::uint32_t*>(memory);
  geometry.largest_h0 = reinterpret_cast<float*>(memory + flags.largest_h0);
  geometry.exponents = reinterpret_cast<std::uint16_t*>(memory + flags.exponents);
  geometry.exchange = memory + flags.bytes;
  if (pass == Pass::kBackward && queue.part <= 0) {
    check(cudaMemsetAsync(exchange, 0, static_cast<std::size_t>(flags.bytes), queue.stream),
          "clear the counters of a recurrent layer");
  }
  if constexpr (std::is_same_v<Args, LayerForward>) {
    if (kind.storage == DType::kFloat32 && args.h0) {
      persistent::find_largest(queue.stream, static_cast<const float*>(args.h0),
                               std::int64_t{extent.directions} * extent.rows * extent.hidden,
                               geometry.largest_h0);
    }
  }
  const int element = static_cast<int>(base::size_of(kind.storage));
  Args copy = args;
  BlockMemory layout(geometry, backward_bytes(element));
  BackwardBoxes boxes{};
  if constexpr (std::is_same_v<Args, LayerBackward>) {
    if (geometry.boxes) boxes = boxes_of(kind, args);
  }
  void* values[]{&copy, &geometry, &layout, &boxes};  // backward's kernel takes all of them
  const int groups = geometry.groups;
  for (int i = 0; i < spread.launches; ++i) {
    if (queue.part >= 0 && queue.part != i) continue;
    geometry.first_tile = i * groups * geometry.tiles_each;
    const int rest = geometry.tiles - geometry.first_tile;
    SLUICE_ASSERT(rest > 0);
    geometry.groups = std::min(groups, static_cast<int>(parts(rest, geometry.tiles_each)));
    // Overlapped work starts with the layer's first launch.
    const bool begins = i == std::max(queue.part, 0);
    Launch(kernel, spread, bytes).run(begins ? queue : LaunchQueue{queue.stream}, values);
  }
}

/// The reason if this GPU doesn't run all blocks of `abreast` launches with `rows` rows at once.
std::optional<std::string> refuse_blocks(const Descriptor& descriptor, Pass pass, std::int64_t rows,
                                         std::int64_t abreast) {
  Spread spread = spread_of(pass, descriptor, rows, abreast).value();
  const Kernels& kernels = kernels_of({descriptor.cell, descriptor.dtype, descriptor.tf32});
  const void* kernel = kernel_of(kernels, pass, spread.geometry);
  const int bytes = fill_memory(spread.geometry, pass, descriptor.dtype);
  const int clusters = Launch(kernel, spread, bytes).at_once();
  const std::int64_t blocks = abreast * spread.blocks();
  if (clusters * spread.cluster >= blocks) return std::nullopt;
  return fmt::format("this GPU runs {} of its {} clusters of {} blocks at once", clusters,
                     blocks / spread.cluster, spread.cluster);
}

std::optional<std::string> refuse_pass(const Descriptor& descriptor,
                                       const runtime::cuda::CudaDevice& device, Pass pass) {
  const auto spread = spread_of(pass, descriptor, descriptor.rows);
  if (!spread && descriptor.directions == 2) {
    return "both directions of so many units don't run at once";
  }
  if (!spread) return "clusters that share the depth of backward's products don't all run at once";
  const int tiles = spread->most_tiles();
  if (tiles > most_tiles(pass, descriptor)) {
    return fmt::format("with {} rows to a block, a kernel a step is faster", tiles * kTileRows);
  }
  const runtime::cuda::CurrentDevice current(device.gpu().ordinal);
  const bool halves = pass == Pass::kForward && halves_pay(descriptor, descriptor.time);
  const std::int64_t abreast = halves ? 2 : 1;
  // A run of fewer rows than the capacity may take more blocks, or clusters of another size.
  for (std::int64_t rows = descriptor.rows; rows > 0; rows -= kTileRows) {
    for (std::int64_t launches = 1; launches <= abreast; ++launches) {
      if (auto reason = refuse_blocks(descriptor, pass, rows, launches)) return reason;
    }
  }
  return std::nullopt;
}

}  // namespace

std::int64_t forward_stages(const Descriptor& descriptor) {
  return stages_of(Pass::kForward, descriptor.gates(), descriptor.hidden);
}
std::int64_t backward_stages(const Descriptor& descriptor) {
  return stages_of(Pass::kBackward, descriptor.gates(), descriptor.hidden);
}

bool halves_pay(const Descriptor& descriptor, std::int64_t time) {
  // On half of the GPU a block has twice the tiles. A step with two tiles takes little longer than
  // with one, and with four a third longer than with two. The additional launches cost as much as a
  // few steps.
  constexpr int kMostTiles = 4, kFewTiles = 2;
  constexpr std::int64_t kFewestSteps = 32;
  const std::int64_t fewest_of_few_tiles = descriptor.tf32 ? 20 : 16;
  if (descriptor.layers == 1 || descriptor.directions > 1) return false;
  if (forward_stages(descriptor) > kRegisterStages) return false;
  const auto half = spread_of(Pass::kForward, descriptor, descriptor.rows, 2);
  if (!half || half->most_tiles() > kMostTiles) return false;
  return time >= (half->most_tiles() > kFewTiles ? kFewestSteps : fewest_of_few_tiles);
}

std::int64_t exchange_bytes(const Descriptor& descriptor) {
  const Pass pass = descriptor.training ? Pass::kBackward : Pass::kForward;
  const std::int64_t tiles = parts(descriptor.rows, kTileRows);
  const std::int64_t chunks = chunks_of(descriptor.hidden);
  const std::int64_t depth = depth_chunks(pass, descriptor.gates(), descriptor.hidden);
  constexpr std::int64_t kChunkBytes = kTileRows * 128;
  return Flags(descriptor.dtype, descriptor.directions, tiles, chunks).bytes +
         descriptor.directions * tiles * 2 * depth * kChunkBytes;
}

std::optional<std::string> refuse(const Descriptor& descriptor,
                                  const runtime::cuda::CudaDevice& device) {
  if (!device.gpu().code.hopper) {
    return "it needs a GPU of compute capability 9.0 that runs kernels compiled for it";
  }
  const bool factors_fit = descriptor.tf32 || descriptor.dtype == DType::kBFloat16 ||
                           descriptor.dtype == DType::kFloat16;
  if (!factors_fit) return "it computes bfloat16, float16 and TF32";
  if (descriptor.projects()) return "it has no projection";
  constexpr std::int64_t kMostUnits = kMostStages * kStageChunks * kChunkUnits;
  if (descriptor.hidden > kMostUnits) {
    return fmt::format("its blocks hold the recurrent weights of {} units, not of {}", kMostUnits,
                       descriptor.hidden);
  }
  if (auto reason = refuse_pass(descriptor, device, Pass::kForward)) return reason;
  return descriptor.training ? refuse_backward(descriptor, device) : std::nullopt;
}

std::optional<std::string> refuse_backward(const Descriptor& descriptor,
                                           const runtime::cuda::CudaDevice& device) {
  return refuse_pass(descriptor, device, Pass::kBackward);
}

void clear_exchanges(cudaStream_t stream, const Descriptor& descriptor, std::int64_t rows,
                     std::int64_t count, void* first) {
  const Flags flags(descriptor.dtype, descriptor.directions, parts(rows, kTileRows),
                    chunks_of(descriptor.hidden));
  check(cudaMemset2DAsync(first, static_cast<std::size_t>(exchange_bytes(descriptor)), 0,
                          static_cast<std::size_t>(flags.bytes), static_cast<std::size_t>(count),
                          stream),
        "clear the counters of recurrent layers");
}

void launch(const LaunchQueue& queue, const CellKind& kind, const LayerForward& args,
            std::int64_t abreast, bool saved_by_gate, void* exchange) {
  launch_layer(queue, kind, Pass::kForward, take_piece(args, kind.storage), abreast, saved_by_gate,
               exchange);
}
void launch(const LaunchQueue& queue, const CellKind& kind, const LayerBackward& args,
            bool saved_by_gate, void* exchange) {
  launch_layer(queue, kind, Pass::kBackward, args, 1, saved_by_gate, exchange);
}

std::int64_t backward_launch_rows(const Descriptor& descriptor, std::int64_t rows) {
  const Spread spread = spread_of(Pass::kBackward, descriptor, rows).value();
  return std::int64_t{spread.geometry.groups} * spread.geometry.tiles_each * kTileRows;
}

std::int64_t backward_processors(const Descriptor& descriptor, std::int64_t rows) {
  return spread_of(Pass::kBackward, descriptor, rows).value().blocks();
}

void await_turns(cudaStream_t stream, const Descriptor& descriptor, std::int64_t rows,
                 std::int64_t turns, const void* exchange) {
  const std::int64_t tiles = parts(rows, kTileRows);
  const std::int64_t counters = descriptor.directions * tiles * chunks_of(descriptor.hidden);
  // A step's gradients are written before those of the next one are published.
  await_counters(stream, static_cast<const std::uint32_t*>(exchange),
                 static_cast<std::int32_t>(counters),
                 static_cast<std::uint32_t>((turns + 1) * kAnnouncements));
}

}  // namespace sluice::kernels::recurrent::cuda::wide
