#pragma once

#include <cstring>
#include <type_traits>

#include "kernels/recurrent/cuda/neighbours.h"
#include "kernels/recurrent/cuda/persistent/arithmetic.h"
#include "kernels/recurrent/cuda/persistent/geometry.h"
#include "kernels/recurrent/cuda/wide/ring.h"

/// What the warps that evaluate cells have in common, forward and backward. A warp has every second
/// of eight rows of each tile; a thread two neighbouring units of one row.
namespace sluice::kernels::recurrent::cuda::wide {

inline constexpr int kCells = 2;  ///< of a thread

/// Two neighbours in storage: those of 16 bits in one register.
template <typename T>
struct Pair {
  std::uint32_t bits = 0;

  Pair() = default;
  __device__ Pair(float first, float second) {
    T values[2];
    store(values, first);
    store(values + 1, second);
    memcpy(&bits, values, sizeof(bits));
  }
};
template <>
struct Pair<float> {
  float values[2] = {};

  Pair() = default;
  __device__ Pair(float first, float second) : values{first, second} {}
};

/// Of the four values in 16 bits that each of two units has, those of gate `g`.
template <typename T>
__device__ Pair<T> pair_of_gate(const uint2 (&units)[kCells], int g) {
  const auto gates = [&](int u) { return g < 2 ? units[u].x : units[u].y; };
  Pair<T> pair;
  pair.bits = __byte_perm(gates(0), gates(1), g % 2 == 0 ? 0x5410 : 0x7632);
  return pair;
}

/// a * b + c by one instruction, which the compiler makes five of if it finds factors of 64 bits.
__device__ inline std::int64_t multiply_wide(int a, int b, int c) {
  std::int64_t result;
  asm("mad.wide.s32 %0, %1, %2, %3;"
      : "=l"(result)
      : "r"(a), "r"(b), "l"(static_cast<std::int64_t>(c)));
  return result;
}

/// Where a thread's cells are. kEven: of an even number of units, so that two lie in one aligned
/// piece of memory.
template <bool kEven>
class CellPlace {
 public:
  /// Of one of kCellThreads; `lengths` of the block's rows.
  __device__ CellPlace(const Extent& extent, const Geometry& geometry, const Part& part,
                       const Barriers& barriers, const int* lengths, int thread)
      : extent_(extent),
        geometry_(geometry),
        part_(part),
        barriers_(barriers),
        lengths_(lengths),
        thread_(keep(thread)),
        lane_(thread_ % 32),
        unit_(part.chunk * kChunkUnits + part.quarter * kUnits + lane_ / 4 * 2),
        row_(keep(thread_ / 32 % 4 * 8 + lane_ % 4 * 2 + thread_ / 128)),
        values_(
            geometry, extent.directions, part, part.chunk,
            row_ * 128 + ((part.quarter * 2 + lane_ / 16) ^ row_ % 8) * 16 + lane_ / 4 % 4 * 4) {}

  __device__ int thread() const { return thread_; }
  __device__ int lane() const { return lane_; }
  __device__ int unit() const { return unit_; }
  /// Of the block, and of the tile.
  __device__ int unit_place() const { return lane_ / 4 * 2; }
  __device__ int row_place() const { return row_; }
  __device__ bool has_unit(int u) const { return unit_ + u < extent_.hidden; }
  __device__ bool has_row(int tile) const { return row(tile) < extent_.rows; }
  __device__ bool has(int tile, int u) const { return has_unit(u) && has_row(tile); }
  __device__ int row(int tile) const { return (part_.first_tile + tile) * kTileRows + row_; }
  /// Steps of the row, or of one below it; none of one that isn't there.
  __device__ int length(int tile, int rows_below = 0) const {
    return lengths_[tile * kTileRows + row_ + rows_below];
  }
  /// Of the first unit in an array [.., rows, H].
  __device__ std::int64_t at(int index, int tile) const {
    return multiply_wide(line(index, tile), extent_.hidden, unit_);
  }
  /// The row in an array [.., rows].
  __device__ int line(int index, int tile) const { return index * extent_.rows + row(tile); }
  /// Of the first unit's first gate in an array [time, rows, directions, gates, H].
  template <int kGates>
  __device__ std::int64_t gate_at(int time, int tile) const {
    const int width = kGates * extent_.hidden;
    return multiply_wide(line(time, tile), extent_.directions * width,
                         part_.direction * width + unit_);
  }
  /// Of the thread's row among those of the tile, so that a warp's lie next to each other.
  __device__ int tile_place() const { return thread_ / 32 % 4 * 8 + thread_ / 128 * 4 + lane_ % 4; }
  /// Whether any of the warp's rows has values to publish.
  __device__ bool has_line() const { return row_ < geometry_.lines; }
  __device__ int direction() const { return part_.direction; }
  __device__ bool reversed() const { return part_.direction == 1; }

  /// Where sums of the thread's row are, with four values of each lane: two for it, two for the
  /// other row of the lane.
  __device__ const float2* sums_in(const float4* parts) const {
    return reinterpret_cast<const float2*>(parts + thread_ % 128) + thread_ / 128;
  }

  /// Writes the two units' values.
  template <typename V>
  __device__ void store_units(V* to, const V (&values)[kCells]) const {
    if constexpr (kEven) {
      Neighbours<V, kCells> both;
      both.at[0] = values[0];
      both.at[1] = values[1];
      if (has_unit(0)) store_neighbours(to, both);
    } else {
      if (has_unit(0)) to[0] = values[0];
      if (has_unit(1)) to[1] = values[1];
    }
  }

  template <typename T>
  __device__ void store_units(T* to, const Pair<T>& values) const {
    if constexpr (std::is_same_v<T, float>) {
      store_units(to, values.values);
    } else if constexpr (kEven) {
      if (has_unit(0)) *reinterpret_cast<std::uint32_t*>(to) = values.bits;
    } else {
      auto* bits = reinterpret_cast<std::uint16_t*>(to);
      if (has_unit(0)) bits[0] = static_cast<std::uint16_t>(values.bits);
      if (has_unit(1)) bits[1] = static_cast<std::uint16_t>(values.bits >> 16);
    }
  }

  /// Writes the thread's part of a tile's `number`-th values to publish: each gate, forward h.
  template <int kPlanes>
  __device__ void hand_on(int number, int tile, const std::uint32_t (&planes)[kPlanes]) const {
    if (!has_line()) return;
    std::byte* to = values_.at(number, tile);
#pragma unroll
    for (int i = 0; i < kPlanes; ++i) {
      *reinterpret_cast<std::uint32_t*>(to) = planes[i];
      to += geometry_.chunks * geometry_.chunk_bytes();
    }
  }
  /// Signals that the warp has written all its values of a tile.
  __device__ void tell(int tile) const {
    __syncwarp();
    if (lane_ == 0) arrive(written(tile));
  }
  /// For a tile's values that are ready to be published.
  __device__ std::uint32_t written(int tile) const { return barriers_.written(tile); }

 private:
  /// The same, as something that can't be computed again: the compiler would, in every step.
  __device__ static int keep(int value) {
    return __shfl_sync(~0u, value, static_cast<int>(threadIdx.x) % 32);
  }

  const Extent& extent_;
  const Geometry& geometry_;
  const Part& part_;
  const Barriers& barriers_;
  const int* const lengths_;
  const int thread_, lane_, unit_, row_;
  const Values values_;
};

/// Calls `work` with whether there is an even number of units.
template <typename Work>
__device__ void for_width(const Extent& extent, const Work& work) {
  if (extent.hidden % 2 == 0) {
    work(std::true_type{});
  } else {
    work(std::false_type{});
  }
}

/// Where a thread keeps the state of its cells between steps, a place a tile.
template <typename State>
class StateMemory {
 public:
  __device__ StateMemory(std::byte* memory, int thread)
      : memory_(reinterpret_cast<State*>(memory) + thread) {}
  __device__ State& operator[](int tile) const { return memory_[tile * kCellThreads]; }

 private:
  State* memory_;
};

}  // namespace sluice::kernels::recurrent::cuda::wide
