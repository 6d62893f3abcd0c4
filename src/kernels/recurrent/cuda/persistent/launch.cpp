#include "kernels/recurrent/cuda/persistent/launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <type_traits>

#include "base/check.h"
#include "kernels/recurrent/cuda/cluster_launch.h"
#include "kernels/recurrent/cuda/persistent/kernels.h"
#include "runtime/cuda/check.h"
#include "runtime/cuda/current_device.h"

namespace sluice::kernels::recurrent::cuda::persistent {
namespace {

using runtime::cuda::check;

std::int64_t clusters_for_direction(int blocks, std::int64_t directions) {
  return std::max<std::int64_t>(clusters_at_once(blocks) / directions, 1);
}

constexpr std::int64_t kTile = 8;  // rows

/// Spreads rows over as many clusters as run at once, so that each has few. Layers that run at the
/// same time fill the GPU together, so their clusters take whole tiles instead: two, where a row
/// costs least, or the one that a halved cluster can take.
Spread spread_of(const Cluster& cluster, std::int64_t directions, std::int64_t abreast,
                 std::int64_t rows) {
  const std::int64_t most = clusters_for_direction(cluster.blocks, directions);
  std::int64_t each = (rows + most - 1) / most;
  if (abreast > 1) {
    const std::int64_t tiles = cluster == kHalved ? 1 : 2;
    const std::int64_t fewest = (rows * abreast + most - 1) / most;
    each = std::max(each, std::min(tiles, (fewest + kTile - 1) / kTile) * kTile);
  }
  const std::int64_t clusters = (rows + each - 1) / each;
  each = (rows + clusters - 1) / clusters;
  return {static_cast<std::int32_t>(clusters), static_cast<std::int32_t>(each)};
}

int tiles_of(const Spread& spread) { return static_cast<int>((spread.rows + kTile - 1) / kTile); }

Form form_of(const Descriptor& descriptor) {
  if (descriptor.layer_norm) return Form::kNorm;
  return descriptor.has_extras() ? Form::kExtras : Form::kPlain;
}

/// The most tiles that a cluster has kernels for.
int most_tiles(const CellKind& kind, Form form, const Cluster& cluster) {
  const TileKernels& all = kernels_of(kind, form, cluster);
  return static_cast<int>(
      std::count_if(all.begin(), all.end(), [](const Kernels& k) { return k.forward != nullptr; }));
}

/// The highest stream priority of this GPU.
int highest_priority() {
  int lowest = 0, highest = 0;
  check(cudaDeviceGetStreamPriorityRange(&lowest, &highest), "ask for the priorities of kernels");
  return highest;
}

/// A launch whose clusters need not run at the same time. Single blocks are launched as clusters of
/// two, which changes nothing for them: compute-sanitizer reports an error if a block that is a
/// cluster of its own sends to itself.
class Launch : public ClusterLaunch {
 public:
  Launch(const void* kernel, int blocks, int clusters, int bytes)
      : ClusterLaunch(kernel, size_of(blocks, clusters, bytes)) {
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1),
          "allow a recurrent kernel large clusters");
    // A cluster starts when enough multiprocessors are free in one place. Blocks of overlapped
    // products must not take them one by one.
    add(cudaLaunchAttributePriority).priority = highest_priority();
  }

 private:
  static Size size_of(int blocks, int clusters, int bytes) {
    const int together = std::max(blocks, 2);
    return {together, (blocks * clusters + together - 1) / together * together, kThreads, bytes};
  }
};

/// Whether this GPU can run the kernel in clusters of that size.
bool runs(const void* kernel, int blocks, int bytes) {
  return Launch(kernel, blocks, 1, bytes).at_once() > 0;
}

template <typename Args>
void launch_layer(const LaunchQueue& queue, const CellKind& kind, const Cluster& cluster,
                  std::int64_t abreast, const Args& args, const void* Kernels::*kernel,
                  int Kernels::*bytes) {
  constexpr Form kForm = std::is_base_of_v<LayerForwardWithNorm, Args> ||
                                 std::is_base_of_v<LayerBackwardWithNorm, Args>
                             ? Form::kNorm
                         : std::is_base_of_v<LayerForwardWithExtras, Args> ||
                                 std::is_base_of_v<LayerBackwardWithExtras, Args>
                             ? Form::kExtras
                             : Form::kPlain;
  const Extent& extent = args.extent;
  Spread spread = spread_of(cluster, extent.directions, abreast, extent.rows);
  const Kernels& kernels =
      kernels_of(kind, kForm, cluster)[static_cast<std::size_t>(tiles_of(spread) - 1)];
  Args copy = args;
  void* values[]{&copy, &spread};
  Launch(kernels.*kernel, cluster.blocks, spread.clusters * extent.directions, kernels.*bytes)
      .run(queue, values);
}

/// How many layers of the descriptor run at the same time in long runs.
std::int64_t most_abreast(const Descriptor& descriptor) {
  return descriptor.directions == 1 ? descriptor.layers : 1;
}

/// The largest cluster that this cell and dtype have kernels for.
Cluster largest_cluster(const Descriptor& descriptor) {
  if (descriptor.gates() > 1) return kClusters.back();
  return descriptor.dtype == DType::kFloat32 ? kRnnClusters.front() : kRnnClusters.back();
}

/// The smallest cluster that holds all units; nothing if none does.
std::optional<Cluster> smallest_cluster(const Descriptor& descriptor) {
  const Cluster largest = largest_cluster(descriptor);
  Cluster cluster{descriptor.gates() > 1 ? kClusters.front().blocks : 1, largest.units};
  while (cluster.blocks * cluster.units < descriptor.hidden) {
    if (cluster == largest) return std::nullopt;
    cluster.blocks *= 2;
  }
  return cluster;
}

/// Cell features that this kernel does not support.
std::optional<std::string> refuse_cell(const Descriptor& descriptor) {
  if (descriptor.cell == CellType::kGruResetBefore) return "its GRU resets after the product";
  if (descriptor.gates() > 1) return std::nullopt;
  if (descriptor.has_extras()) return "of plain RNNs it has the equations alone";
  if (descriptor.cell == CellType::kRnnRelu && descriptor.dtype == DType::kFloat32) {
    return "in float32 it scales h by a bound, which a ReLU has not";
  }
  return std::nullopt;
}

}  // namespace

Cluster forward_cluster(const Descriptor& descriptor) {
  const Cluster cluster = backward_cluster(descriptor);
  if (descriptor.dtype == DType::kFloat32 || descriptor.has_extras() ||
      cluster.blocks <= kHalved.blocks || descriptor.hidden % 4 != 0) {
    return cluster;
  }
  // Twice as many halved clusters run at once, each with half as many rows. One tile with twice the
  // products takes less time than two tiles.
  const Spread spread =
      spread_of(cluster, descriptor.directions, most_abreast(descriptor), descriptor.rows);
  const std::int64_t most = clusters_for_direction(kHalved.blocks, descriptor.directions) * kTile;
  return tiles_of(spread) > 1 && descriptor.rows <= most ? kHalved : cluster;
}

Cluster backward_cluster(const Descriptor& descriptor) {
  return smallest_cluster(descriptor).value();
}

std::optional<std::string> refuse_size(const Descriptor& descriptor) {
  if (descriptor.time * descriptor.rows * descriptor.directions * descriptor.gates() *
          descriptor.hidden >
      std::numeric_limits<std::int32_t>::max()) {
    return "it counts the gates of all steps and rows in 32 bits";
  }
  return std::nullopt;
}

std::optional<std::string> refuse(const Descriptor& descriptor,
                                  const runtime::cuda::CudaDevice& device) {
  if (!device.gpu().code.hopper) {
    return "it needs a GPU of compute capability 9.0 that runs kernels compiled for it";
  }
  if (descriptor.dtype == DType::kFloat64) return "it computes float32, bfloat16 and float16";
  if (descriptor.projects()) return "it has no projection";
  if (descriptor.layer_norm && descriptor.dtype == DType::kFloat32) {
    return "with layer norm it computes bfloat16 and float16";
  }
  if (auto reason = refuse_cell(descriptor)) return reason;
  const auto cluster = smallest_cluster(descriptor);
  if (!cluster) {
    const Cluster largest = largest_cluster(descriptor);
    return fmt::format("a cluster holds the recurrent weights of {} units, not of {}",
                       largest.blocks * largest.units, descriptor.hidden);
  }
  const int blocks = cluster->blocks;
  const Spread spread =
      spread_of(*cluster, descriptor.directions, most_abreast(descriptor), descriptor.rows);
  // The same plan may run in float32 or in TF32. TF32 accepts at least as many rows.
  CellKind kind{descriptor.cell, descriptor.dtype};
  const Form form = form_of(descriptor);
  const int most = most_tiles(kind, form, *cluster);
  if (tiles_of(spread) > most) {
    return fmt::format("its clusters take {} rows at once, not {}",
                       clusters_for_direction(blocks, descriptor.directions) * kTile * most,
                       descriptor.rows);
  }
  if (auto reason = refuse_size(descriptor)) return reason;
  const runtime::cuda::CurrentDevice current(device.gpu().ordinal);
  for (const bool tf32 : {false, true}) {
    kind.tf32 = tf32;
    // A run of fewer rows than the capacity takes fewer tiles, so all kernels must run.
    for (int tiles = 1; tiles <= tiles_of(spread); ++tiles) {
      const Kernels& kernels =
          kernels_of(kind, form, *cluster)[static_cast<std::size_t>(tiles - 1)];
      if (!runs(kernels.forward, blocks, kernels.forward_bytes) ||
          !runs(kernels.backward, blocks, kernels.backward_bytes)) {
        return fmt::format("this GPU can't run {} blocks as a cluster", blocks);
      }
    }
  }
  const Cluster forward = forward_cluster(descriptor);
  if (forward != *cluster) {
    kind.tf32 = false;
    const Kernels& kernels = kernels_of(kind, form, forward).front();
    if (!runs(kernels.forward, forward.blocks, kernels.forward_bytes)) {
      return fmt::format("this GPU can't run {} blocks as a cluster", forward.blocks);
    }
  }
  return std::nullopt;
}

template <typename Args>
void launch(const LaunchQueue& queue, const CellKind& kind, const Descriptor& descriptor,
            std::int64_t abreast, const Args& args) {
  if constexpr (std::is_base_of_v<LayerForward, Args>) {
    launch_layer(queue, kind, forward_cluster(descriptor), abreast, args, &Kernels::forward,
                 &Kernels::forward_bytes);
  } else {
    launch_layer(queue, kind, backward_cluster(descriptor), abreast, args, &Kernels::backward,
                 &Kernels::backward_bytes);
  }
}
template void launch(const LaunchQueue&, const CellKind&, const Descriptor&, std::int64_t,
                     const LayerForward&);
template void launch(const LaunchQueue&, const CellKind&, const Descriptor&, std::int64_t,
                     const LayerBackward&);
template void launch(const LaunchQueue&, const CellKind&, const Descriptor&, std::int64_t,
                     const LayerForwardWithExtras&);
template void launch(const LaunchQueue&, const CellKind&, const Descriptor&, std::int64_t,
                     const LayerBackwardWithExtras&);
template void launch(const LaunchQueue&, const CellKind&, const Descriptor&, std::int64_t,
                     const LayerForwardWithNorm&);
template void launch(const LaunchQueue&, const CellKind&, const Descriptor&, std::int64_t,
                     const LayerBackwardWithNorm&);
template void launch(const LaunchQueue&, const CellKind&, const Descriptor&, std::int64_t,
                     const RnnForwardArgs&);
template void launch(const LaunchQueue&, const CellKind&, const Descriptor&, std::int64_t,
                     const RnnBackwardArgs&);

}  // namespace sluice::kernels::recurrent::cuda::persistent
