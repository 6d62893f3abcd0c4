#pragma once

#include "kernels/recurrent/cuda/cells.h"
#include "kernels/recurrent/cuda/persistent/geometry.h"
#include "kernels/recurrent/cuda/wide/ring.h"

/// What the warps that evaluate cells have in common, forward and backward. A warp has eight rows
/// of each tile; a thread two neighbouring units of two neighbouring rows.
namespace sluice::kernels::recurrent::cuda::wide {

/// Cells of a thread: cell 2 * u + r is unit u of row r.
inline constexpr int kCells = 4;
__device__ constexpr int unit_of(int cell) { return cell / 2; }
__device__ constexpr int row_of(int cell) { return cell % 2; }

/// Two neighbours in storage.
template <typename T>
struct alignas(4) Pair {
  T first, second;
};

/// Where a thread's cells are. kEven: of an even number of units, so that two lie in one aligned
/// piece of memory.
template <bool kEven>
class CellPlace {
 public:
  __device__ CellPlace(const Extent& extent, const Geometry& geometry, const Part& part,
                       const Barriers& barriers)
      : extent_(extent),
        geometry_(geometry),
        part_(part),
        barriers_(barriers),
        warp_(static_cast<int>(threadIdx.x) % 128 / 32),
        lane_(static_cast<int>(threadIdx.x) % 32),
        unit_(part.chunk * kChunkUnits + part.quarter * kUnits + lane_ / 4 * 2),
        row_(warp_ * 8 + lane_ % 4 * 2) {}

  __device__ int thread() const { return warp_ * 32 + lane_; }
  __device__ int warp() const { return warp_; }
  __device__ int lane() const { return lane_; }
  __device__ int unit() const { return unit_; }
  __device__ bool has_unit(int u) const { return unit_ + u < extent_.hidden; }
  __device__ bool has_row(int tile, int r) const { return row(tile, r) < extent_.rows; }
  __device__ bool has(int tile, int cell) const {
    return has_unit(unit_of(cell)) && has_row(tile, row_of(cell));
  }
  __device__ int row(int tile, int r) const {
    return (part_.first_tile + tile) * kTileRows + row_ + r;
  }
  /// Steps of a row; none of one that isn't there.
  __device__ int length(int tile, int r) const {
    if (!has_row(tile, r)) return 0;
    return extent_.lengths ? extent_.lengths[row(tile, r)] : extent_.time;
  }
  /// Of a cell's unit in an array [.., rows, H].
  __device__ std::int64_t at(int index, int tile, int r) const {
    return line(index, tile, r) * static_cast<std::int64_t>(extent_.hidden) + unit_;
  }
  /// The row in an array [.., rows].
  __device__ int line(int index, int tile, int r) const {
    return index * extent_.rows + row(tile, r);
  }
  /// Of the first gate of a cell's unit in an array [time, rows, directions, gates, H].
  template <int kGates>
  __device__ std::int64_t gate_at(int time, int tile, int r) const {
    const int width = kGates * extent_.hidden;
    return line(time, tile, r) * static_cast<std::int64_t>(extent_.directions * width) +
           (part_.direction * width + unit_);
  }
  __device__ bool reversed() const { return part_.direction == 1; }
  const Extent& extent() const { return extent_; }

  /// Reads a row's two units; what isn't there is left alone.
  template <typename V>
  __device__ void load_units(const V* from, V& first, V& second) const {
    if constexpr (kEven) {
      struct alignas(2 * sizeof(V)) Both {
        V first, second;
      };
      if (!has_unit(0)) return;
      const Both both = *reinterpret_cast<const Both*>(from);
      first = both.first;
      second = both.second;
    } else {
      if (has_unit(0)) first = from[0];
      if (has_unit(1)) second = from[1];
    }
  }
  /// Writes a row's two units.
  template <typename V>
  __device__ void store_units(V* to, V first, V second) const {
    if constexpr (kEven) {
      struct alignas(2 * sizeof(V)) Both {
        V first, second;
      };
      if (has_unit(0)) *reinterpret_cast<Both*>(to) = {first, second};
    } else {
      if (has_unit(0)) to[0] = first;
      if (has_unit(1)) to[1] = second;
    }
  }

  /// Writes what the thread hands on as `number`-th values of a tile: `plane` is the gate.
  template <typename T>
  __device__ void hand_on(int number, int tile, int plane, const T (&values)[kCells]) const {
    if (row_ >= geometry_.lines) return;
    std::byte* chunk = values_of(geometry_, extent_.directions, part_, number, tile,
                                 plane * geometry_.chunks + part_.chunk);
    const int piece = part_.quarter * 2 + lane_ / 16;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int line = row_ + r;
      std::byte* to = chunk + line * 128 + (piece ^ line % 8) * 16 + lane_ / 4 % 4 * 4;
      *reinterpret_cast<Pair<T>*>(to) = {values[r], values[2 + r]};
    }
  }
  /// All that the warp hands on of a tile is written.
  __device__ void tell(int tile) const {
    __syncwarp();
    if (lane_ == 0) arrive(barriers_.written(tile));
  }

 private:
  const Extent& extent_;
  const Geometry& geometry_;
  const Part& part_;
  const Barriers& barriers_;
  const int warp_, lane_, unit_, row_;
};

/// Where a thread keeps the state of its cells between steps, a place a tile.
template <typename State>
class StateMemory {
 public:
  __device__ StateMemory(std::byte* memory, int thread)
      : memory_(reinterpret_cast<State*>(memory) + thread) {}
  __device__ State& operator[](int tile) const { return memory_[tile * 128]; }

 private:
  State* memory_;
};

}  // namespace sluice::kernels::recurrent::cuda::wide
