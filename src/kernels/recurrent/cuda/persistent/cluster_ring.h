#pragma once

#include "kernels/recurrent/cuda/cluster.h"
#include "kernels/recurrent/cuda/persistent/geometry.h"
#include "kernels/recurrent/cuda/persistent/packed_weights.h"

namespace sluice::kernels::recurrent::cuda::persistent {

/// The blocks that share a layer's units as one of them sees them: kBlocks, or where a thread owns
/// several units up to four, a power of two. They are a cluster, but for single blocks, which are
/// half of one (launch.cpp).
template <int kBlocks, int kThreadUnits>
struct ClusterRing {
  static constexpr bool kVaries = kThreadUnits > 1 && kBlocks == 4;
  int blocks = kBlocks;
  int rank = static_cast<int>(cluster_rank());

  __device__ explicit ClusterRing(const Extent& extent) {
    if constexpr (kVaries) {
      blocks = extent.hidden > kUnits * kThreadUnits ? static_cast<int>(cluster_size()) : 1;
      rank &= blocks - 1;
    }
  }

  /// What a constant of kBlocks blocks is of those that there are.
  __device__ int part_of(int all) const { return kVaries ? all / kBlocks * blocks : all; }

  /// Where the same place of shared memory is in the block that is `distance` ahead of this one.
  __device__ std::uint32_t address_ahead(int distance, std::uint32_t address) const {
    if constexpr (!kVaries) {
      return address_in(persistent::ahead<kBlocks>(rank, distance), address);
    }
    const int first = static_cast<int>(cluster_rank()) - rank;
    return address_in(first + ((rank + distance) & (blocks - 1)), address);
  }
  /// The block that is `distance` behind.
  __device__ int behind(int distance) const {
    if constexpr (!kVaries) return persistent::behind<kBlocks>(rank, distance);
    return (rank - distance) & (blocks - 1);
  }
};

}  // namespace sluice::kernels::recurrent::cuda::persistent
