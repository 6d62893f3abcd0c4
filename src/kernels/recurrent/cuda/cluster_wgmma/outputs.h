#pragma once

#include "kernels/recurrent/cuda/cluster_wgmma/block.h"
#include "kernels/recurrent/cuda/storage.h"

/// The warps that write h and c to global memory: outputs, and states for backward.
namespace sluice::kernels::recurrent::cuda::cluster_wgmma {

inline constexpr int kWritingThreads = 64;

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

template <typename Cell, typename T, int kGroups>
class Outputs {
  using Memory = BlockMemory<kGroups>;
  static constexpr int kHPieces = Memory::kUnits / 8, kCPieces = Memory::kUnits / 4;

 public:
  /// `thread` of those that write.
  __device__ Outputs(const LayerForward& args, const Geometry& geometry, const Part& part,
                     std::byte* shared, const Memory& memory, int thread)
      : args_(args),
        geometry_(geometry),
        part_(part),
        shared_(shared),
        cells_(shared + memory.cells),
        lengths_(reinterpret_cast<const int*>(shared + memory.lengths)),
        thread_(thread),
        unit_(part.rank * Memory::kUnits) {}

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
  __device__ StateArrays<T> kept(int index) const {
    return {static_cast<T*>(args_.h_states[part_.direction]), args_.c_states[part_.direction],
            index * args_.extent.rows};
  }

  /// A tile's states to where they go, and unless `time` is -1 to the outputs of that time, where
  /// rows that have ended have zeros.
  __device__ void write(int tile, int number, int time, const StateArrays<T>& to) const {
    const Extent& extent = args_.extent;
    const TileState<kGroups> states{geometry_};
    const int first = geometry_.first_column(tile), columns = geometry_.columns(tile);
    const int rows = min(columns, part_.rows - first), row_of_layer = part_.first_row + first;
    const int* lengths = lengths_ + first;
    const auto* h = reinterpret_cast<const T*>(shared_ + states.at(tile, number)) +
                    part_.rank * kHPieces * columns * 8;
#pragma unroll 1
    for (int i = thread_; i < rows * kHPieces; i += kWritingThreads) {
      const int row = i / kHPieces, piece = i % kHPieces, unit = unit_ + piece * 8;
      if (unit >= extent.hidden) continue;
      const T* from = h + (piece * columns + row) * 8;
      if (time >= 0) {
        const int line = time * extent.rows + row_of_layer + row;
        store_piece(static_cast<T*>(args_.y) + (line * extent.directions + part_.direction) *
                                                   static_cast<std::int64_t>(extent.hidden) +
                        unit,
                    from, time >= lengths[row]);
      }
      if (to.h) store_piece(to.h + index(to.line, row_of_layer + row, unit), from, false);
    }
    if constexpr (!Cell::kHasCellState) return;
    if (!to.c && !args_.c_sequence) return;
    const auto* c = reinterpret_cast<const float*>(cells_ + states.cells_at(tile, number));
#pragma unroll 1
    for (int i = thread_; i < rows * kCPieces; i += kWritingThreads) {
      const int row = i / kCPieces, piece = i % kCPieces, unit = unit_ + piece * 4;
      if (unit >= extent.hidden) continue;
      const float* from = c + row * Memory::kCellStride + piece * 4;
      if (time >= 0 && args_.c_sequence) {
        const int line = (part_.direction * extent.time + time) * extent.rows;
        store_piece(args_.c_sequence + index(line, row_of_layer + row, unit), from,
                    time >= lengths[row]);
      }
      if (to.c) store_piece(to.c + index(to.line, row_of_layer + row, unit), from, false);
    }
  }
  __device__ std::int64_t index(int line, int row, int unit) const {
    return static_cast<std::int64_t>(line + row) * args_.extent.hidden + unit;
  }

  const LayerForward& args_;
  const Geometry& geometry_;
  const Part& part_;
  const std::byte *const shared_, *const cells_;
  const int* const lengths_;
  const int thread_, unit_;
};

}  // namespace sluice::kernels::recurrent::cuda::cluster_wgmma
