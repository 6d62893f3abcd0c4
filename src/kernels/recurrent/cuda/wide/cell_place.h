#pragma once

#include "kernels/recurrent/cuda/cells.h"
#include "kernels/recurrent/cuda/persistent/geometry.h"
#include "kernels/recurrent/cuda/wide/ring.h"

/// What the warps that evaluate cells have in common, forward and backward. A warp has eight rows
/// of each tile; a thread two neighbouring units of two neighbouring rows.
namespace sluice::kernels::recurrent::cuda::wide {

/// Cells of a thread: cell 2 * u + r is unit u of row r.
inline constexpr int kCells = 4;

/// Two neighbours in storage.
template <typename T>
struct alignas(4) Pair {
  T first, second;
};

/// Where a thread's cells are.
class CellPlace {
 public:
  __device__ CellPlace(const Extent& extent, const Geometry& geometry, const Part& part)
      : extent_(extent),
        geometry_(geometry),
        part_(part),
        warp_(static_cast<int>(threadIdx.x) % 128 / 32),
        lane_(static_cast<int>(threadIdx.x) % 32),
        unit_(part.chunk * kChunkUnits + part.quarter * kUnits + lane_ / 4 * 2),
        row_(warp_ * 8 + lane_ % 4 * 2) {}

  int static constexpr unit_of(int cell) { return cell / 2; }
  int static constexpr row_of(int cell) { return cell % 2; }

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
    return (static_cast<std::int64_t>(index) * extent_.rows + row(tile, r)) * extent_.hidden +
           unit_;
  }
  /// Whether two units lie in four bytes of a row.
  __device__ bool even() const { return extent_.hidden % 2 == 0; }
  __device__ bool reversed() const { return part_.direction == 1; }
  const Extent& extent() const { return extent_; }

  /// Writes a row's two units, at an even distance from aligned memory if `even()`.
  template <typename V>
  __device__ void store_units(V* to, V first, V second) const {
    if (even()) {
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
  __device__ void tell(int tile) const {
    announce(counter_of(geometry_, part_, tile, part_.chunk));
  }

 private:
  const Extent& extent_;
  const Geometry& geometry_;
  const Part& part_;
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
