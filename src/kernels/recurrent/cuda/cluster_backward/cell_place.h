#pragma once

#include "kernels/recurrent/cuda/cluster_backward/memory.h"

namespace sluice::kernels::recurrent::cuda::cluster_backward {

/// Where a thread's two cells of a chunk are: of the chunk's bytes.
struct CellAt {
  int place;  ///< in lines of 64 bytes, four of them two units
  int saved, sums;

  /// A warp has eight of the first sixteen rows, or the last two.
  template <typename Memory>
  __device__ static CellAt of(int warp, int lane) {
    using Inputs = typename Memory::Inputs;
    constexpr int kPairs = Inputs::kSavedUnits / 2, kPairBytes = 128 / kPairs;
    const bool last = warp == kMainCellWarps;
    const int row = last ? 16 + lane % 2 : warp / 4 * 8 + lane % 8;
    const int pair = last ? lane / 2 : warp % 4 * 4 + lane / 8;
    const int slice = pair / 8 * Memory::kSliceBytes, of_slice = pair % 8;
    return {row * 64 + pair * 4,
            pair / kPairs * Inputs::kSavedBytes + row * 128 + pair % kPairs * kPairBytes,
            slice + row / 8 * Memory::kEightBytes +
                (row < 16 ? of_slice * 64 + row % 8 * 8 : of_slice * 16 + row % 2 * 8)};
  }
  __device__ int row() const { return place / 64; }
  __device__ int unit() const { return place % 64 / 2; }
  template <typename Inputs>
  __device__ int c() const {
    return Inputs::kC + place * 2;
  }
  template <typename Inputs>
  __device__ int dy() const {
    return Inputs::kDy + place * (Inputs::kDyLine / 64);
  }
};

}  // namespace sluice::kernels::recurrent::cuda::cluster_backward
