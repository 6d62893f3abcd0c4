#pragma once

#include <cstring>

#include "kernels/recurrent/cuda/cells.h"
#include "kernels/recurrent/cuda/neighbours.h"
#include "kernels/recurrent/cuda/persistent/geometry.h"
#include "kernels/recurrent/cuda/streamed/block.h"
#include "kernels/recurrent/cuda/wide/cell_place.h"

/// What the threads that evaluate cells have in common, forward and backward.
namespace sluice::kernels::recurrent::cuda::streamed {

using wide::kCells;
using wide::Pair;

/// Where a thread's cells are: a pair of units of one row. A warp has four pairs of eight rows.
class CellPlace {
 public:
  __device__ CellPlace(const Extent& extent, const Geometry& geometry, const Part& part,
                       const std::byte* sums)
      : extent_(extent), geometry_(geometry) {
    const int thread = static_cast<int>(threadIdx.x) % geometry.cell_threads(), warp = thread / 32;
    const int lane = thread % 32, pair = warp % geometry.cell_groups * kWarpPairs + lane / 8;
    row_ = warp / geometry.cell_groups * 8 + lane % 8;
    unit_ = part.first_unit + 2 * pair;
    exists_ = pair < geometry.pairs && row_ < extent.rows && unit_ < extent.hidden;
    even_ = extent.hidden % 2 == 0;
    if (exists_) length_ = extent.lengths ? extent.lengths[row_] : extent.time;
    sums_ = sums + row_ / 8 * geometry.slots * 64 + pair * 64 + row_ % 8 * 8;
    written_ = unit_ / kLineUnits * geometry.half_bytes() + row_ * 128 +
               (unit_ % kLineUnits / 8 ^ row_ % 8) * 16 + unit_ % 8 * 2;
  }

  __device__ bool exists() const { return exists_; }
  __device__ bool has_unit(int u) const { return unit_ + u < extent_.hidden; }
  __device__ int unit() const { return unit_; }
  /// Steps of the row.
  __device__ int length() const { return length_; }
  /// Of the first unit in an array [.., rows, H], and of its first gate in one [.., rows, gates,
  /// H].
  __device__ std::int64_t at(int index) const { return gate_at<1>(index); }
  template <int kGates>
  __device__ std::int64_t gate_at(int index) const {
    return wide::multiply_wide(index * extent_.rows + row_, kGates * extent_.hidden, unit_);
  }

  template <typename V>
  __device__ void load_units(const V* from, V (&values)[kCells]) const {
    if (even_) {
      const auto both = *reinterpret_cast<const Neighbours<V, kCells>*>(from);
      values[0] = both.at[0];
      values[1] = both.at[1];
    } else {
      values[0] = from[0];
      if (has_unit(1)) values[1] = from[1];
    }
  }
  template <typename V>
  __device__ void store_units(V* to, const V (&values)[kCells]) const {
    if (even_) {
      Neighbours<V, kCells> both;
      both.at[0] = values[0];
      both.at[1] = values[1];
      store_neighbours(to, both);
    } else {
      to[0] = values[0];
      if (has_unit(1)) to[1] = values[1];
    }
  }
  template <typename T>
  __device__ void store_units(T* to, const Pair<T>& values) const {
    T both[kCells];
    memcpy(both, &values.bits, sizeof(both));
    store_units(to, both);
  }

  /// What all blocks of the cluster, up to kMostBlocks, have summed up for a slot of the pair's,
  /// `slot` pairs further.
  template <int kMostBlocks>
  __device__ float2 sum(int number, int slot) const {
    const std::byte* from = sums_ + number % 2 * geometry_.sums_bytes() + slot * 64;
    float2 sum = *reinterpret_cast<const float2*>(from);
#pragma unroll
    for (int i = 1; i < kMostBlocks; ++i) {
      if (i == geometry_.cluster) break;
      const float2 part = *reinterpret_cast<const float2*>(from + i * geometry_.part_bytes());
      sum.x += part.x;
      sum.y += part.y;
    }
    return sum;
  }
  /// Writes the `number`-th values to publish; `plane` is the gate.
  __device__ void hand_on(int number, int plane, std::uint32_t values) const {
    const int chunk = number % 2 * geometry_.depth_chunks + plane * geometry_.chunks;
    std::byte* to = geometry_.exchange + (written_ + chunk * geometry_.chunk_bytes());
    *reinterpret_cast<std::uint32_t*>(to) = values;
  }

 private:
  const Extent& extent_;
  const Geometry& geometry_;
  int row_, unit_, length_ = 0, written_;
  bool exists_, even_;
  const std::byte* sums_;
};

/// The turns of the warps that evaluate cells: waiting for sums, and telling that values are
/// written.
class CellTurns {
 public:
  __device__ CellTurns(const Geometry& geometry, const Barriers& barriers)
      : geometry_(geometry), barriers_(barriers) {}

  __device__ void wait_for_sums(int number) const {
    wait_for_phase(barriers_.sums(number % 2), number / 2 % 2);
    // Those of the turn after the next one can't come before all blocks have these.
    if (threadIdx.x == 128 * kProductGroups) barriers_.expect_sums(geometry_, number % 2);
  }
  __device__ void tell() const {
    __syncwarp();
    if (threadIdx.x % 32 == 0) arrive(barriers_.written());
  }

 private:
  const Geometry& geometry_;
  const Barriers& barriers_;
};

}  // namespace sluice::kernels::recurrent::cuda::streamed
