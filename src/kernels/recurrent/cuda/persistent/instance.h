#pragma once

#include "kernels/recurrent/cuda/persistent/backward_kernel.h"
#include "kernels/recurrent/cuda/persistent/forward_kernel.h"
#include "kernels/recurrent/cuda/persistent/kernels.h"

namespace sluice::kernels::recurrent::cuda::persistent {

/// Both kernels for one number of tiles; none where shared memory doesn't suffice.
template <typename ForwardArgs, typename BackwardArgs, typename Cell, typename Arithmetic,
          int kBlocks, int kTiles>
Kernels instance() {
  using Forward = ForwardMemory<ForwardArgs, Cell, Arithmetic, kBlocks, kTiles>;
  using Backward = BackwardMemory<Cell, Arithmetic, kBlocks, kTiles>;
  constexpr int kMostBytes = 227 * 1024;
  if constexpr (Forward::kBytes <= kMostBytes && Backward::kBytes <= kMostBytes) {
    return {reinterpret_cast<const void*>(
                forward_kernel<ForwardArgs, Cell, Arithmetic, kBlocks, kTiles>),
            reinterpret_cast<const void*>(
                backward_kernel<BackwardArgs, Cell, Arithmetic, kBlocks, kTiles>),
            Forward::kBytes, Backward::kBytes};
  } else {
    return {};
  }
}

}  // namespace sluice::kernels::recurrent::cuda::persistent
