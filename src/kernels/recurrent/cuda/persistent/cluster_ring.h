#pragma once

#include "kernels/recurrent/cuda/cluster.h"
#include "kernels/recurrent/cuda/persistent/geometry.h"
#include "kernels/recurrent/cuda/persistent/packed_weights.h"

namespace sluice::kernels::recurrent::cuda::persistent {

/// The blocks of a cluster as one of them sees them: kBlocks, or where a thread owns several units
/// up to so many, a power of two.
template <int kBlocks, int kThreadUnits>
struct ClusterRing {
  int rank = static_cast<int>(cluster_rank());
  int blocks = kThreadUnits == 1 ? kBlocks : static_cast<int>(cluster_size());

  /// What a constant of kBlocks blocks is of those that the cluster has.
  __device__ int part_of(int all) const { return kThreadUnits == 1 ? all : all / kBlocks * blocks; }

  /// The block that is `distance` ahead of this one, or behind it.
  __device__ int ahead(int distance) const {
    if constexpr (kThreadUnits == 1) return persistent::ahead<kBlocks>(rank, distance);
    return (rank + distance) & (blocks - 1);
  }
  __device__ int behind(int distance) const {
    if constexpr (kThreadUnits == 1) return persistent::behind<kBlocks>(rank, distance);
    return (rank - distance) & (blocks - 1);
  }
};

}  // namespace sluice::kernels::recurrent::cuda::persistent
