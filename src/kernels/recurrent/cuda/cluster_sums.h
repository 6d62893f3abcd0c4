#pragma once

#include "kernels/recurrent/cuda/cluster.h"
#include "kernels/recurrent/cuda/product_loop.h"

/// Where the blocks of a cluster, each of which has summed a slice of the depth, bring their
/// partial sums together: block r ends up with all partial sums of the r-th part of the tile's
/// rows, and adds them in the order of the slices.
namespace sluice::kernels::recurrent::cuda {

template <int kColumns>
class ClusterSums {
 public:
  static constexpr int kBytes = kTileRows * kColumns * static_cast<int>(sizeof(float));

  /// `memory` is at the same place in all blocks; the tile has `rows` rows that count.
  __device__ ClusterSums(float* memory, int rows)
      : memory_(memory),
        sources_(static_cast<int>(cluster_size())),
        rank_(static_cast<int>(cluster_rank())),
        tile_rows_(rows),
        share_((rows + sources_ - 1) / sources_) {}

  /// Rows of the tile that this block ends up with, and the first of them.
  __device__ int rows() const { return min(share_, tile_rows_ - first_row()); }
  __device__ int first_row() const { return rank_ * share_; }

  /// Sends values from `column` of a row of the tile on to the block that adds them.
  template <typename Vector>
  __device__ void send(int row, int column, const Vector& values) const {
    if (row >= tile_rows_) return;
    const float* place = memory_ + (rank_ * share_ + row % share_) * kColumns + column;
    store_in_cluster(address_in(row / share_, shared_address(place)), values);
  }
  /// The sums of kCount columns of a row of this block.
  template <int kCount>
  __device__ void add_up(int row, int column, float* sums) const {
#pragma unroll
    for (int i = 0; i < kCount; ++i) sums[i] = 0;
    for (int source = 0; source < sources_; ++source) {
      const float* from = memory_ + (source * share_ + row) * kColumns + column;
      if constexpr (kCount == 4) {
        const float4 v = *reinterpret_cast<const float4*>(from);
        sums[0] += v.x, sums[1] += v.y, sums[2] += v.z, sums[3] += v.w;
      } else {
        static_assert(kCount == 1);
        sums[0] += *from;
      }
    }
  }

 private:
  float* memory_;
  int sources_, rank_, tile_rows_, share_;
};

}  // namespace sluice::kernels::recurrent::cuda
