#include "kernels/recurrent/cuda/persistent/launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/check.h"
#include "kernels/recurrent/cuda/persistent/kernels.h"
#include "runtime/cuda/check.h"
#include "runtime/cuda/current_device.h"

namespace sluice::kernels::recurrent::cuda::persistent {
namespace {

using runtime::cuda::check;

/// Clusters of kClusterSizes that an H200 runs at once, if each block takes a multiprocessor for
/// itself (cudaOccupancyMaxActiveClusters).
constexpr std::array kClustersAtOnce{30, 15, 7};

std::int64_t clusters_for_direction(int blocks, std::int64_t directions) {
  const auto size = std::find(kClusterSizes.begin(), kClusterSizes.end(), blocks);
  const std::int64_t all = kClustersAtOnce[static_cast<std::size_t>(size - kClusterSizes.begin())];
  return std::max<std::int64_t>(all / directions, 1);
}

/// Few rows each, so that as many clusters as can run share the work.
Spread spread_of(int blocks, std::int64_t directions, std::int64_t rows) {
  const std::int64_t most = clusters_for_direction(blocks, directions);
  const std::int64_t each = (rows + most - 1) / most;
  return {static_cast<std::int32_t>((rows + each - 1) / each), static_cast<std::int32_t>(each)};
}

int tiles_of(const Spread& spread) { return (spread.rows + 7) / 8; }

/// A launch of one cluster after the other; `attribute` must outlive it.
cudaLaunchConfig_t configuration(int blocks, int clusters, int bytes,
                                 cudaLaunchAttribute& attribute) {
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {static_cast<unsigned>(blocks), 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = static_cast<unsigned>(blocks * clusters);
  config.blockDim = kThreads;
  config.dynamicSmemBytes = static_cast<std::size_t>(bytes);
  config.attrs = &attribute;
  config.numAttrs = 1;
  return config;
}

void allow(const void* kernel, int bytes) {
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1),
        "allow a recurrent kernel large clusters");
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
        "allow a recurrent kernel its shared memory");
}

/// Clusters of the kernel that this GPU runs at once.
int clusters_at_once(const void* kernel, int blocks, int bytes) {
  allow(kernel, bytes);
  cudaLaunchAttribute attribute{};
  const cudaLaunchConfig_t config = configuration(blocks, 1, bytes, attribute);
  int clusters = 0;
  check(cudaOccupancyMaxActiveClusters(&clusters, kernel, &config),
        "ask how many clusters of a recurrent kernel run at once");
  return clusters;
}

template <typename Args>
void launch_layer(cudaStream_t stream, const CellKind& kind, const Args& args,
                  const void* Kernels::*kernel, int Kernels::*bytes) {
  const Extent& extent = args.extent;
  const int blocks = blocks_of(extent.hidden).value();
  Spread spread = spread_of(blocks, extent.directions, extent.rows);
  const Kernels& kernels = kernels_of(kind, blocks)[static_cast<std::size_t>(tiles_of(spread) - 1)];
  allow(kernels.*kernel, kernels.*bytes);
  cudaLaunchAttribute attribute{};
  cudaLaunchConfig_t config =
      configuration(blocks, spread.clusters * extent.directions, kernels.*bytes, attribute);
  config.stream = stream;
  Args copy = args;
  void* values[]{&copy, &spread};
  check(cudaLaunchKernelExC(&config, kernels.*kernel, values),
        "queue the kernel of a recurrent layer");
}

}  // namespace

std::optional<int> blocks_of(std::int64_t hidden) {
  for (const int blocks : kClusterSizes) {
    if (hidden <= blocks * kUnits) return blocks;
  }
  return std::nullopt;
}

std::optional<std::string> refuse(const Descriptor& descriptor,
                                  const runtime::cuda::CudaDevice& device) {
  if (!device.gpu().code.hopper) {
    return "it needs a GPU of compute capability 9.0 that runs kernels compiled for it";
  }
  if (descriptor.dtype != DType::kBFloat16 && descriptor.dtype != DType::kFloat16) {
    return "it computes bfloat16 and float16";
  }
  if (descriptor.projection > 0) return "it has no projection";
  const auto blocks = blocks_of(descriptor.hidden);
  if (!blocks) {
    return fmt::format("a cluster holds the recurrent weights of {} units, not of {}",
                       kClusterSizes.back() * kUnits, descriptor.hidden);
  }
  const Spread spread = spread_of(*blocks, descriptor.directions, descriptor.rows);
  if (tiles_of(spread) > kMostTiles) {
    return fmt::format("its clusters take {} rows at once, not {}",
                       clusters_for_direction(*blocks, descriptor.directions) * 8 * kMostTiles,
                       descriptor.rows);
  }
  const runtime::cuda::CurrentDevice current(device.gpu().ordinal);
  // Runs of fewer rows take fewer tiles.
  const CellKind kind{descriptor.cell, descriptor.dtype};
  for (int tiles = 1; tiles <= tiles_of(spread); ++tiles) {
    const Kernels& kernels = kernels_of(kind, *blocks)[static_cast<std::size_t>(tiles - 1)];
    if (clusters_at_once(kernels.forward, *blocks, kernels.forward_bytes) == 0 ||
        clusters_at_once(kernels.backward, *blocks, kernels.backward_bytes) == 0) {
      return fmt::format("this GPU can't run {} blocks as a cluster", *blocks);
    }
  }
  return std::nullopt;
}

void launch(cudaStream_t stream, const CellKind& kind, const LayerForward& args) {
  launch_layer(stream, kind, args, &Kernels::forward, &Kernels::forward_bytes);
}

void launch(cudaStream_t stream, const CellKind& kind, const LayerBackward& args) {
  launch_layer(stream, kind, args, &Kernels::backward, &Kernels::backward_bytes);
}

}  // namespace sluice::kernels::recurrent::cuda::persistent
