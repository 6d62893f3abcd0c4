#pragma once

#include "kernels/matmul/cuda/by_parts/split.h"
#include "kernels/matmul/cuda/by_parts/stages.h"

namespace sluice::kernels::matmul::cuda::by_parts {

/// The left factor's parts of one instruction, as multiply_lines takes them.
struct LeftParts {
  unsigned high[4], middle[4], low[4];

  __device__ void put(int i, const PairParts& pair) {
    high[i] = pair.high;
    middle[i] = pair.middle;
    low[i] = pair.low;
  }
};

/// Products whose numbers are on their way at a time, and how deep these are.
inline constexpr int kLeftProducts = 2, kLeftDepth = kLeftProducts * kProductDepth;
/// Numbers of two rows as they are read.
using LeftNumbers = float2[kLeftProducts][4];
/// The first of a thread's two rows in its tile.
__device__ inline int first_left_row() {
  return static_cast<int>(threadIdx.x) / kWarpSize * 16 +
         static_cast<int>(threadIdx.x) % kWarpSize / 4 * 2;
}
/// The first of its columns in each group of eight: of the depth, and of sums.
__device__ inline int first_column() { return static_cast<int>(threadIdx.x) % 4 * 2; }

/// The two rows of the left factor that a thread splits; the instruction's row l / 4 and the one 8
/// below are rows next to each other, so that both may be read at a time.
class LeftRows {
 public:
  using Work = by_parts::Work;
  /// The first one.
  using Place = int;

  __device__ explicit LeftRows(const Arguments& args)
      : factor_(args.left),
        rows_(args.m),
        depth_(args.k),
        row_in_tile_(first_left_row()),
        column_(first_column()) {}

  __device__ Place place(const Work& work) const { return work.row + row_in_tile_; }

  /// Numbers from `depth` on, pairs along the rows of the data; zeros beyond the factor.
  __device__ void load(LeftNumbers& x, Place row, int depth) const {
    const bool whole = factor_.aligned && row + 1 < rows_ && depth + kLeftDepth <= depth_;
    if (!whole) return load_guarded(x, row, depth);
    const std::int64_t step = factor_.depth_in_rows ? factor_.stride : 1;
    const float* from = at(row, depth + column_);
#pragma unroll
    for (int i = 0; i < kLeftProducts; ++i) {
#pragma unroll
      for (int q = 0; q < 4; ++q) {
        const std::int64_t offset = (i * kProductDepth + q / 2 * 8) * step;
        x[i][q] = __ldg(reinterpret_cast<const float2*>(from + offset + q % 2 * factor_.stride));
      }
    }
  }

  __device__ LeftParts split(const float2 (&x)[4]) const {
    LeftParts parts;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      float2 first = x[2 * i], second = x[2 * i + 1];
      if (factor_.depth_in_rows) {
        const float swapped = first.y;
        first.y = second.x;
        second.x = swapped;
      }
      parts.put(2 * i, split_pair(first.x, first.y));
      parts.put(2 * i + 1, split_pair(second.x, second.y));
    }
    return parts;
  }

 private:
  __device__ const float* at(int row, int depth) const {
    return factor_.depth_in_rows ? factor_.data + depth * factor_.stride + row
                                 : factor_.data + row * factor_.stride + depth;
  }
  __device__ void load_guarded(LeftNumbers& x, int row, int depth) const {
    const bool in_rows = factor_.depth_in_rows;
#pragma unroll
    for (int i = 0; i < kLeftProducts; ++i) {
#pragma unroll
      for (int q = 0; q < 4; q += 2) {
        const int first = depth + column_ + i * kProductDepth + q / 2 * 8;
        const auto number = [&](int below, int behind) {
          const bool there = row + below < rows_ && first + behind < depth_;
          return there ? __ldg(at(row + below, first + behind)) : 0;
        };
        const float below = number(1, 0), behind = number(0, 1);
        x[i][q] = {number(0, 0), in_rows ? below : behind};
        x[i][q + 1] = {in_rows ? behind : below, number(1, 1)};
      }
    }
  }

  const Factor factor_;
  const int rows_, depth_, row_in_tile_, column_;
};

}  // namespace sluice::kernels::matmul::cuda::by_parts
