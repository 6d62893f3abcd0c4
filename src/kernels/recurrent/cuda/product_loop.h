#pragma once

#include "kernels/recurrent/cuda/tensor_copy.h"
#include "kernels/recurrent/cuda/warpgroup_product.h"

/// The recurrent product of one block: 64 rows by the columns of two warpgroups, over a slice of
/// the depth. Both factors come to shared memory in chunks of 128 bytes of depth.
namespace sluice::kernels::recurrent::cuda {

inline constexpr int kTileRows = 64, kTileThreads = 256;

/// Rows of the left factor that a copy brings: all of a tile's if there are several tiles, else
/// those that count and what fills the last eight up.
__host__ __device__ inline int copied_rows(std::int64_t rows) {
  return rows < kTileRows ? static_cast<int>((rows + 7) / 8 * 8) : kTileRows;
}

/// Chunks [first, first + count) of the depth.
struct DepthSlice {
  int first, count;

  /// The part of block `rank` of `size`.
  __device__ static DepthSlice of(std::int64_t depth_bytes, int rank, int size) {
    const int chunks = static_cast<int>((depth_bytes + kLineBytes - 1) / kLineBytes);
    const int share = (chunks + size - 1) / size, first = rank * share;
    return {first, max(0, min(share, chunks - first))};
  }
};

/// A ring of stages: copies run ahead of products by as many chunks as there are stages. The right
/// factor, weights, may be asked for before the left one is there. One thread asks.
template <typename T, int kColumns>
class ProductLoop {
 public:
  static constexpr int kStageBytes = (kTileRows + kColumns) * kLineBytes;
  /// Elements of a chunk.
  static constexpr int kDepth = kLineBytes / static_cast<int>(sizeof(T));
  /// Bytes of shared memory, the first 1024-aligned.
  static constexpr int bytes(int stages) {
    return stages * (kStageBytes + static_cast<int>(sizeof(std::uint64_t)));
  }

  float sums[kColumns / 4];  ///< as multiply_lines leaves them, of the warpgroup's columns

  /// A chunk of the left factor brings `rows` rows; sums of the others mean nothing.
  __device__ ProductLoop(const void* memory, int stages, int rows, const DepthSlice& slice)
      : ring_(shared_address(memory)),
        stages_(stages),
        chunk_bytes_((rows + kColumns) * kLineBytes),
        slice_(slice) {
    if (threadIdx.x != 0) return;
    for (int i = 0; i < stages; ++i) begin_barrier(barrier(i), 1);
    publish_barriers();
  }

  /// `copy(to, depth, barrier)` asks for a chunk's lines of that factor from element `depth` on.
  template <typename Copy>
  __device__ void begin_right(const Copy& copy) const {
    if (threadIdx.x == 0) {
      for (int i = 0; i < min(stages_, slice_.count); ++i) ask_right(copy, i, i);
    }
    __syncwarp();
  }
  template <typename Copy>
  __device__ void begin_left(const Copy& copy) const {
    if (threadIdx.x == 0) {
      for (int i = 0; i < min(stages_, slice_.count); ++i) ask_left(copy, i, i);
    }
    __syncwarp();
  }

  /// The columns of a warpgroup are groups of eight lines, `first` of the right factor's and each
  /// `step`-th after it.
  template <typename Left, typename Right>
  __device__ void run(const Left& left, const Right& right, int first, int step) {
    int stage = 0;
    std::uint32_t parity = 0;
    for (int i = 0; i < slice_.count; ++i) {
      wait_for_phase(barrier(stage), parity);
      const std::uint32_t rows = ring_ + stage * kStageBytes;
      const std::uint32_t columns = rows + kTileRows * kLineBytes + first * kGroupBytes;
      begin_products();
#pragma unroll
      for (int j = 0; j < kLineBytes / kDepthBytes; ++j) {
        multiply_lines<T, kColumns / 2>(sums, lines_at(rows + j * kDepthBytes, kGroupBytes),
                                        lines_at(columns + j * kDepthBytes, step * kGroupBytes),
                                        i > 0 || j > 0);
      }
      end_products();
      // The stage before this one is read by now, or soon: it gets its next chunk.
      const int next = i - 1 + stages_;
      if (i > 0 && next < slice_.count) {
        wait_for_products<1>();
        __syncthreads();
        if (threadIdx.x == 0) {
          const int before = (stage == 0 ? stages_ : stage) - 1;
          ask_right(right, before, next);
          ask_left(left, before, next);
        }
      }
      if (++stage == stages_) stage = 0, parity ^= 1;
    }
    wait_for_products<0>();
    if (slice_.count > 0) return;
#pragma unroll
    for (float& sum : sums) sum = 0;
  }

 private:
  __device__ std::uint32_t barrier(int stage) const {
    return ring_ + stages_ * kStageBytes + stage * static_cast<int>(sizeof(std::uint64_t));
  }
  template <typename Copy>
  __device__ void ask_right(const Copy& copy, int stage, int i) const {
    arrive_and_expect(barrier(stage), chunk_bytes_);
    copy(ring_ + stage * kStageBytes + kTileRows * kLineBytes, (slice_.first + i) * kDepth,
         barrier(stage));
  }
  template <typename Copy>
  __device__ void ask_left(const Copy& copy, int stage, int i) const {
    copy(ring_ + stage * kStageBytes, (slice_.first + i) * kDepth, barrier(stage));
  }

  std::uint32_t ring_;
  int stages_, chunk_bytes_;
  DepthSlice slice_;
};

}  // namespace sluice::kernels::recurrent::cuda
