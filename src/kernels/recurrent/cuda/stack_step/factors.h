#pragma once

#include <limits>

#include "kernels/matmul/cuda/by_parts/left_rows.h"
#include "kernels/matmul/cuda/by_parts/right_factor.h"
#include "kernels/recurrent/cuda/stack_step/arguments.h"

/// What the products of a stack's step multiply.
namespace sluice::kernels::recurrent::cuda::stack_step {

namespace by_parts = matmul::cuda::by_parts;

static_assert(kTileRows == by_parts::kTile && 4 * kTileUnits == by_parts::kTile);

/// Where a column of a tile's sums belongs: a thread's columns (by_parts::first_column) are all
/// gates of four neighbouring units, and of the four that lie 16 behind.
struct TileColumn {
  int gate, unit;

  __device__ explicit TileColumn(int column) {
    constexpr int kEight = 8, kUnits = 16;
    const int group = column / kEight, lane = column % kEight / 2;
    gate = group % kEight / 2;
    unit = group / kEight * kUnits + lane * 4 + group % 2 * 2 + column % 2;
  }
};

/// A tile of a layer's step. Depths from H on are those of the input.
struct Work {
  using Arguments = StackStep;

  int step, row, unit;  ///< the first of the tile
  int depth_begin = 0, depth_end;

  __device__ Work(const StackStep& args, int index) {
    const int tiles = args.hidden / kTileUnits;
    step = index / tiles;
    row = args.steps[step].first_row;
    unit = index % tiles * kTileUnits;
    depth_end = args.steps[step].input ? 2 * args.hidden : args.hidden;
  }

  __host__ __device__ static int count(const StackStep& args) {
    return args.count * (args.hidden / kTileUnits);
  }
  /// No block has another one.
  __device__ static int behind(int) { return std::numeric_limits<int>::max(); }
};

/// States and inputs, as by_parts::LeftRows; of rows beyond the last that one.
class LeftRows {
 public:
  using Work = stack_step::Work;
  struct Place {
    const float *state, *input;
    int below;  ///< from the first row to the second
  };

  __device__ explicit LeftRows(const StackStep& args) : args_(args) {}

  __device__ Place place(const Work& work) const {
    const LayerStep& step = args_.steps[work.step];
    const int row = work.row + by_parts::first_left_row(), last = args_.rows - 1;
    const int offset = min(row, last) * args_.hidden + by_parts::first_column();
    return {step.state + offset, step.input + offset - args_.hidden, row < last ? args_.hidden : 0};
  }

  __device__ void load(by_parts::LeftNumbers& x, const Place& place, int depth) const {
    const float* from = (depth < args_.hidden ? place.state : place.input) + depth;
#pragma unroll
    for (int i = 0; i < by_parts::kLeftProducts; ++i) {
#pragma unroll
      for (int q = 0; q < 4; ++q) {
        const float* pair = from + i * by_parts::kProductDepth + q / 2 * 8 + q % 2 * place.below;
        // Written by a kernel that may have ended after this one began: not from the first cache.
        x[i][q] = __ldcg(reinterpret_cast<const float2*>(pair));
      }
    }
  }

  __device__ by_parts::LeftParts split(const float2 (&x)[4]) const {
    by_parts::LeftParts parts;
#pragma unroll
    for (int i = 0; i < 4; ++i) parts.put(i, by_parts::split_pair(x[i].x, x[i].y));
    return parts;
  }

 private:
  const StackStep& args_;
};

/// Weights of the gates of a tile's units, as by_parts::RightColumns.
class WeightColumns {
 public:
  using Work = stack_step::Work;
  static constexpr bool kDepthInRows = false;

  __device__ explicit WeightColumns(const StackStep& args) : args_(args) {}

  __device__ void load(float (&x)[by_parts::kPiece], const by_parts::Steps<Work>& at, int column,
                       int depth) const {
    if (at.ended()) return;
    const LayerStep& step = args_.steps[at.work().step];
    const TileColumn place(column);
    const bool of_state = at.depth() < args_.hidden;
    const float* weights = of_state ? step.state_weights : step.input_weights;
    const int row = place.gate * args_.hidden + at.work().unit + place.unit;
    by_parts::load_piece(
        x, weights + row * args_.hidden + depth + at.depth() - (of_state ? 0 : args_.hidden));
  }

 private:
  const StackStep& args_;
};

}  // namespace sluice::kernels::recurrent::cuda::stack_step
