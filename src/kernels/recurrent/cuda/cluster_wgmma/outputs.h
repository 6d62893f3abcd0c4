#pragma once

#include "kernels/recurrent/cuda/cluster_wgmma/block.h"
#include "kernels/recurrent/cuda/storage.h"

/// The warps that write h and c to global memory: outputs, and states for backward.
namespace sluice::kernels::recurrent::cuda::cluster_wgmma {

inline constexpr int kWritingWarps = 3;

/// Copies 16 bytes from shared memory, or as many zeros, at once where they lie so.
template <typename T>
__device__ void store_piece(T* to, const T* from, bool zeros) {
  if (reinterpret_cast<std::uintptr_t>(to) % sizeof(uint4) == 0) {
    uint4 values = *reinterpret_cast<const uint4*>(from);
    if (zeros) values = {};
    *reinterpret_cast<uint4*>(to) = values;
    return;
  }
  constexpr int kCount = sizeof(uint4) / sizeof(T);
#pragma unroll 1
  for (int i = 0; i < kCount; ++i) to[i] = zeros ? T{} : from[i];
}

/// Where states of all rows and units go, [.., rows, H]; may be null.
template <typename T>
struct StateArrays {
  T* h;
  float* c;
  int line;  ///< of the layer's first row
};

template <typename Cell, typename T, typename Memory>
class Outputs {
  static constexpr int kEights = Memory::kUnits / 8, kWarpRows = 32 / kEights;

 public:
  /// `warp` of those that write.
  __device__ Outputs(const LayerForward& args, const Geometry& geometry, const Part& part,
                     std::byte* shared, const Memory& memory, int warp)
      : args_(args),
        geometry_(geometry),
        part_(part),
        states_(shared + memory.states),
        cells_(shared + memory.cells),
        plain_(shared + memory.plain),
        lengths_(reinterpret_cast<const int*>(shared + memory.lengths)),
        row_(warp * kWarpRows + lane() / kEights),
        unit_(part.rank * Memory::kUnits + lane() % kEights * 8),
        exists_(lane() < kWarpRows * kEights && unit_ < args.extent.hidden) {}

  /// Writes states that lie before the first of a tile's steps.
  __device__ void begin(int tile, int steps) const {
    const bool reverse = part_.direction == 1;
#pragma unroll 1
    for (int i = reverse ? steps : 0; i <= (reverse ? args_.extent.time : 0); ++i) {
      write(tile, 0, -1, kept(i));
    }
  }
  /// Writes what a tile's step at `time`, its `number`-th counted from one, has come to.
  __device__ void write(int tile, int number, int time) const {
    write(tile, number, time, kept(part_.direction == 1 ? time : time + 1));
  }
  /// Writes the outputs beyond the longest row of a tile, the states behind its last step, and the
  /// last ones.
  __device__ void finish(int tile, int steps) const {
    const StateArrays<T> last{static_cast<T*>(args_.hn), args_.cn,
                              part_.direction * args_.extent.rows};
#pragma unroll 1
    for (int t = steps; t <= args_.extent.time; ++t) {
      const bool ends = t == args_.extent.time;
      StateArrays<T> states = ends ? last : kept(t + 1);
      if (!ends && part_.direction == 1) states.h = nullptr, states.c = nullptr;
      write(tile, steps, ends ? -1 : t, states);
    }
  }

 private:
  __device__ static int lane() { return static_cast<int>(threadIdx.x) % 32; }
  __device__ StateArrays<T> kept(int index) const {
    return {static_cast<T*>(args_.h_states[part_.direction]), args_.c_states[part_.direction],
            index * args_.extent.rows};
  }

  /// A tile's states to where they go, and unless `time` is -1 to the outputs of that time, where
  /// rows that have ended have zeros. A lane has eight units of a row.
  __device__ void write(int tile, int number, int time, const StateArrays<T>& to) const {
    if (!exists_) return;
    const Extent& extent = args_.extent;
    const TileState<Memory> states{geometry_};
    const int first = geometry_.first_column(tile), columns = geometry_.columns(tile);
    const int rows = min(columns, part_.rows - first), row_of_layer = part_.first_row + first;
    const int cells = states.cells_at(tile, number) + unit_ % Memory::kUnits * 4;
    const auto* c = reinterpret_cast<const float*>(cells_ + cells);
    // Where h is scaled for the product, it lies as c does.
    constexpr bool kScaled = sizeof(T) == 4;
    constexpr int kStride = kScaled ? Memory::kCellStride : 8;
    const auto* h = kScaled ? reinterpret_cast<const T*>(plain_ + cells)
                            : reinterpret_cast<const T*>(states_ + states.at(tile, number)) +
                                  unit_ / 8 * columns * 8;
    // Places in arrays are counted in 32 bits (persistent::refuse_size).
    const int hidden = extent.hidden, directions = extent.directions;
    const int out = ((time * extent.rows + row_of_layer) * directions + part_.direction) * hidden;
    const int kept = (to.line + row_of_layer) * hidden;
    const int c_out =
        ((part_.direction * extent.time + time) * extent.rows + row_of_layer) * hidden;
#pragma unroll 1
    for (int row = row_; row < rows; row += kWritingWarps * kWarpRows) {
      const bool zeros = time >= lengths_[first + row];
      const int inside = row * hidden + unit_;
#pragma unroll
      for (int i = 0; i < 8; i += 16 / static_cast<int>(sizeof(T))) {
        const T* from = h + row * kStride + i;
        if (time >= 0) {
          store_piece(static_cast<T*>(args_.y) + (out + row * directions * hidden + unit_ + i),
                      from, zeros);
        }
        if (to.h) store_piece(to.h + (kept + inside + i), from, false);
      }
      if constexpr (Cell::kHasCellState) {
#pragma unroll
        for (int i = 0; i < 8; i += 4) {
          const float* from = c + row * Memory::kCellStride + i;
          if (time >= 0 && args_.c_sequence) {
            store_piece(args_.c_sequence + (c_out + inside + i), from, zeros);
          }
          if (to.c) store_piece(to.c + (kept + inside + i), from, false);
        }
      }
    }
  }

  const LayerForward& args_;
  const Geometry& geometry_;
  const Part& part_;
  const std::byte *const states_, *const cells_, *const plain_;
  const int* const lengths_;
  const int row_, unit_;
  const bool exists_;
};

}  // namespace sluice::kernels::recurrent::cuda::cluster_wgmma
