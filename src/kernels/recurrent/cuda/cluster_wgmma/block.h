#pragma once

#include "kernels/recurrent/cuda/cluster.h"
#include "kernels/recurrent/cuda/cluster_wgmma/block_memory.h"
#include "kernels/recurrent/cuda/tensor_copy.h"

/// What a block works on, and in which order.
namespace sluice::kernels::recurrent::cuda::cluster_wgmma {

/// Which part of a layer a block has.
struct Part {
  int rank, direction, first_row, rows;

  __device__ Part(const Extent& extent, const Geometry& geometry)
      : rank(static_cast<int>(cluster_rank())) {
    const int cluster = static_cast<int>(blockIdx.x) / kBlocks;
    direction = cluster / geometry.clusters;
    first_row = cluster % geometry.clusters * geometry.rows;
    rows = min(geometry.rows, extent.rows - first_row);
  }
};

/// Writes the steps of each row of the piece (none of one that isn't there), and the most that a
/// row of each tile has; called by a warp.
__device__ inline void count_steps(const Extent& extent, const Geometry& geometry, const Part& part,
                                   int* lengths, int* steps) {
#pragma unroll 1
  for (int tile = 0; tile < geometry.tiles; ++tile) {
    int most = 0;
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x) % 32; i < geometry.columns(tile); i += 32) {
      const int row = geometry.first_column(tile) + i;
      int length = 0;
      if (row < part.rows) {
        length = extent.time;
        if (extent.lengths) {
          length = max(0, min(length, extent.lengths[part.first_row + row] - extent.begin));
        }
      }
      lengths[row] = length;
      most = max(most, length);
    }
    most = __reduce_max_sync(~0u, most);
    if (threadIdx.x % 32 == 0) steps[tile] = most;
  }
}

/// All that there is to do, in the order in which all warps take it: tiles take turns.
class Items {
 public:
  int step = 0, tile = -1;

  __device__ Items(const Geometry& geometry, const int* steps)
      : tiles_(geometry.tiles), steps_(steps), most_(0) {
#pragma unroll 1
    for (int i = 0; i < tiles_; ++i) most_ = max(most_, steps[i]);
    advance();
  }
  __device__ bool has() const { return step < most_; }
  __device__ void advance() {
    do {
      if (++tile == tiles_) {
        tile = 0;
        ++step;
      }
    } while (step < most_ && step >= steps_[tile]);
  }

 private:
  const int tiles_;
  const int* const steps_;
  int most_;
};

/// Where a tile's state after `number` steps is in shared memory, and the phase of the barriers
/// that go with it.
template <typename Memory>
struct TileState {
  const Geometry& geometry;

  __device__ int at(int tile, int number) const {
    return ((number & 1) * geometry.all_columns() + geometry.first_column(tile)) *
           Memory::kStateBytes;
  }
  /// c of a tile's first row, from the beginning of all c.
  __device__ int cells_at(int tile, int number) const {
    return ((number & 1) * geometry.all_columns() + geometry.first_column(tile)) *
           (Memory::kCellStride * 4);
  }
  /// Of the one that says that h is there, which the initial one is without.
  __device__ static std::uint32_t full_phase(int number) { return (number - 1) >> 1 & 1; }
  /// Of the one that says that it has been written to global memory.
  __device__ static std::uint32_t written_phase(int number) { return number >> 1 & 1; }
};

}  // namespace sluice::kernels::recurrent::cuda::cluster_wgmma
