#pragma once

#include "kernels/recurrent/cuda/persistent/backward_kernel.h"
#include "kernels/recurrent/cuda/persistent/forward_kernel.h"
#include "kernels/recurrent/cuda/persistent/kernels.h"

namespace sluice::kernels::recurrent::cuda::persistent {

/// The kernels of a cluster for one number of tiles, if they halve it forward alone; none where
/// shared memory doesn't suffice.
template <typename ForwardArgs, typename BackwardArgs, typename Cell, typename Arithmetic,
          Cluster kCluster, int kTiles>
Kernels instance() {
  constexpr int kMostBytes = 227 * 1024;
  constexpr int kBlocks = kCluster.blocks, kBlockUnits = kCluster.units;
  if constexpr (kCluster == kHalved) {
    if constexpr (kTiles == 1) {
      using Forward = ForwardMemory<ForwardArgs, Cell, Arithmetic, kBlocks, kTiles, kBlockUnits>;
      static_assert(Forward::kBytes <= kMostBytes);
      return {reinterpret_cast<const void*>(
                  forward_kernel<ForwardArgs, Cell, Arithmetic, kBlocks, kTiles, kBlockUnits>),
              nullptr, Forward::kBytes, 0};
    } else {
      return {};
    }
  } else {
    using Forward = ForwardMemory<ForwardArgs, Cell, Arithmetic, kBlocks, kTiles, kBlockUnits>;
    using Backward = BackwardMemory<BackwardArgs, Cell, Arithmetic, kBlocks, kTiles>;
    if constexpr (Forward::kBytes <= kMostBytes && Backward::kBytes <= kMostBytes) {
      return {reinterpret_cast<const void*>(
                  forward_kernel<ForwardArgs, Cell, Arithmetic, kBlocks, kTiles, kBlockUnits>),
              reinterpret_cast<const void*>(
                  backward_kernel<BackwardArgs, Cell, Arithmetic, kBlocks, kTiles>),
              Forward::kBytes, Backward::kBytes};
    } else {
      return {};
    }
  }
}

}  // namespace sluice::kernels::recurrent::cuda::persistent
