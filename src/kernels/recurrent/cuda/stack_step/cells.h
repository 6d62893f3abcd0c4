#pragma once

#include "kernels/matmul/cuda/by_parts/multipliers.h"
#include "kernels/recurrent/cuda/cell_grid.h"
#include "kernels/recurrent/cuda/stack_step/factors.h"

namespace sluice::kernels::recurrent::cuda::stack_step {

/// Four neighbouring numbers.
struct Four {
  float at[4];
};
__device__ inline Four load_four(const float* from) {
  // Not from the first cache, as LeftRows does.
  const float4 x = __ldcg(reinterpret_cast<const float4*>(from));
  return {x.x, x.y, x.z, x.w};
}
__device__ inline void store_four(float* to, const Four& x) {
  *reinterpret_cast<float4*>(to) = {x.at[0], x.at[1], x.at[2], x.at[3]};
}

/// The cells of a tile, of which a thread has four neighbouring units four times: in two rows, and
/// 16 units further.
class Cells {
 public:
  __device__ explicit Cells(const StackStep& args) : args_(args) {}

  __device__ void write(const Work& work, const LeftRows::Place&, by_parts::Sums& sums) const {
    const LayerStep& step = args_.steps[work.step];
    const int row = work.row + by_parts::first_left_row();
    const int unit = work.unit + 2 * by_parts::first_column();
    const runtime::DropoutKey key = step.dropout.key();
    Units units[kTimes];
#pragma unroll
    for (int k = 0; k < kTimes; ++k) {
      begin(units[k], step.cell, min(row + k % 2, args_.rows - 1), unit + k / 2 * kUnitsApart);
#pragma unroll
      for (int i = 0; i < 16; ++i) {
        units[k].sums[i / 4].at[i % 4] += sums[k / 2 * 32 + i / 2 * 4 + k % 2 * 2 + i % 2];
      }
    }
    // Code for four units serves all, which take the first ones' registers in turn.
#pragma unroll 1
    for (int k = 0; k < kTimes; ++k) {
      if (row + k % 2 < args_.rows) run(step, key, units[0]);
#pragma unroll
      for (int i = 1; i < kTimes; ++i) units[i - 1] = units[i];
    }
  }

 private:
  using Cell = LstmCell<ExactMath>;
  static constexpr int kTimes = 4, kUnitsApart = 16;

  /// What four units have before their step.
  struct Units {
    int row, unit;  ///< the first
    std::uint32_t row_id;
    bool active;
    Four c, sums[4];
  };

  /// All but the sums of the tile's products.
  __device__ void begin(Units& units, const CellForwardArgs& cell, int row, int unit) const {
    units.row = row;
    units.unit = unit;
    units.row_id = static_cast<std::uint32_t>(args_.row_ids ? args_.row_ids[row] : row);
    units.active = is_active(cell.lengths, row, cell.t);
    units.c = load_four(cell.c_before + row * args_.hidden + unit);
#pragma unroll
    for (int g = 0; g < 4; ++g) {
      const int column = g * args_.hidden + unit;
      const float4 bias = __ldg(reinterpret_cast<const float4*>(cell.bias + column));
      Four x{};
      if (cell.input) x = load_four(cell.input + row * 4 * args_.hidden + column);
      units.sums[g] = {x.at[0] + bias.x, x.at[1] + bias.y, x.at[2] + bias.z, x.at[3] + bias.w};
    }
  }

  __device__ void run(const LayerStep& step, const runtime::DropoutKey& key,
                      const Units& units) const {
    const CellForwardArgs& cell = step.cell;
    const int at = units.row * args_.hidden + units.unit;
    Four c = units.c, h, y{};
    if (units.active) {
      Four gates[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        float values[4];
#pragma unroll
        for (int g = 0; g < 4; ++g) values[g] = units.sums[g].at[j];
        ExactMath::activate(values);
        c.at[j] = Cell::next_c(values, c.at[j]);
        h.at[j] = Cell::next_h(values, c.at[j], 0);
#pragma unroll
        for (int g = 0; g < 4; ++g) gates[g].at[j] = values[g];
      }
      if (cell.c_sequence) store_four(cell.c_sequence + at, c);
      y = h;
      if (step.drops) drop_out(key, static_cast<std::uint32_t>(cell.t), units, y);
      if (cell.saved) {
        float* saved = static_cast<float*>(cell.saved) + units.row * 4 * args_.hidden + units.unit;
#pragma unroll
        for (int g = 0; g < 4; ++g) store_four(saved + g * args_.hidden, gates[g]);
      }
    } else {
      h = load_four(static_cast<const float*>(cell.h_before) + at);
      if (cell.c_sequence) store_four(cell.c_sequence + at, y);
    }
    store_four(cell.c_after + at, c);
    store_four(static_cast<float*>(cell.h_after) + at, h);
    store_four(static_cast<float*>(cell.y) + at, y);
  }

  __device__ void drop_out(const runtime::DropoutKey& key, std::uint32_t time, const Units& units,
                           Four& y) const {
    const auto words = key.words(units.row_id, time, static_cast<std::uint32_t>(units.unit / 4));
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      y.at[j] = words[j] >= args_.dropout.threshold ? y.at[j] * args_.dropout.multiplier : 0.0f;
    }
  }

  const StackStep& args_;
};

}  // namespace sluice::kernels::recurrent::cuda::stack_step
