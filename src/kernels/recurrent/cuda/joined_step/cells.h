#pragma once

#include "kernels/recurrent/cuda/cell_grid.h"
#include "kernels/recurrent/cuda/joined_step/arguments.h"
#include "kernels/recurrent/cuda/neighbours.h"

namespace sluice::kernels::recurrent::cuda::joined_step {

template <typename T>
__device__ float2 load_pair(const T* from) {
  const auto pair = *reinterpret_cast<const Neighbours<T, 2>*>(from);
  return {load(pair.at), load(pair.at + 1)};
}
template <typename T>
__device__ void store_pair(T* to, const float2& values) {
  Neighbours<T, 2> pair;
  store(pair.at, values.x);
  store(pair.at + 1, values.y);
  store_neighbours(to, pair);
}

/// The cells of a thread: where the sums of its warpgroup are, in two rows four pairs of units
/// each. Pairs begin at even units, of which there is an even number. Columns of a tile's sums are
/// four groups of kUnits: the LSTM's gates; of the GRU r, z, and n of the input apart from n of the
/// state.
template <typename Cell, typename T>
class Cells {
 public:
  static constexpr int kHalves = 2, kPairs = kUnits / 8;
  using Sums = float[4 * kUnits / 2];

  __device__ explicit Cells(const CellForwardArgs& args)
      : args_(args),
        row_(static_cast<int>(blockIdx.y * kRows + threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4)),
        unit_(static_cast<int>(blockIdx.x * kUnits + threadIdx.x % 4 * 2)) {}

  /// Of both products the sums begin with the biases.
  __device__ void begin(Sums& sums) const {
#pragma unroll
    for (int group = 0; group < 4; ++group) {
      const float* biases = bias_of(group);
#pragma unroll
      for (int j = 0; j < kPairs; ++j) {
        float2 bias{};
        if (unit_ + 8 * j < args_.hidden) bias = load_pair(biases + unit_ + 8 * j);
        float* pairs = sums + (group * kPairs + j) * 4;
        pairs[0] = pairs[2] = bias.x;
        pairs[1] = pairs[3] = bias.y;
      }
    }
  }

  /// The state that the cells need beside the sums.
  __device__ void load_states() {
#pragma unroll
    for (int j = 0; j < kPairs; ++j) {
      for_rows(unit_ + 8 * j, [&](int q, std::int64_t row, std::int64_t unit) {
        states_[j * kHalves + q] = load_pair(states() + row * args_.hidden + unit);
      });
    }
  }

  /// Code for one pair of each row serves all, which take the first one's registers in turn.
  __device__ void run(Sums& sums) {
#pragma unroll 1
    for (int j = 0; j < kPairs; ++j) {
      for_rows(unit_ + 8 * j, [&](int q, std::int64_t row, std::int64_t unit) {
        step(row, unit, sums + 2 * q, states_[q]);
      });
#pragma unroll
      for (int i = 0; i < 4 * 4 * (kPairs - 1); ++i) {
        const int group = i / (4 * (kPairs - 1));
        sums[i + 4 * group] = sums[i + 4 * group + 4];
      }
#pragma unroll
      for (int i = kHalves; i < kHalves * kPairs; ++i) states_[i - kHalves] = states_[i];
    }
  }

 private:
  using State = std::conditional_t<Cell::kHasCellState, float, T>;

  __device__ const State* states() const {
    if constexpr (Cell::kHasCellState) {
      return args_.c_before;
    } else {
      return static_cast<const T*>(args_.h_before);
    }
  }
  __device__ const float* bias_of(int group) const {
    if (Cell::kGates == 3 && group == 3) return args_.bias_hn;
    return args_.bias + group * args_.hidden;
  }
  /// Calls body(half, row, unit) for the pair's unit in both rows.
  template <typename Body>
  __device__ void for_rows(std::int64_t unit, const Body& body) const {
#pragma unroll
    for (int q = 0; q < kHalves; ++q) {
      const std::int64_t row = row_ + 8 * q;
      if (row < args_.rows && unit < args_.hidden) body(q, row, unit);
    }
  }

  /// `sums`: of the first unit, those of the next one behind, those of the next group kPairs * 4
  /// behind.
  __device__ static void evaluate(const float* sums, float (&gates)[Cell::kSaved]) {
    const float s[] = {sums[0], sums[4 * kPairs], sums[8 * kPairs], sums[12 * kPairs]};
    if constexpr (Cell::kGates == 4) {
      constexpr float kNone[4] = {};
      Cell::evaluate(s, kNone, 0, gates);
    } else {
      const float recurrent[] = {0, 0, s[3]};
      Cell::evaluate(s, recurrent, 0, gates);
    }
  }

  __device__ void step(std::int64_t row, std::int64_t unit, const float* sums,
                       const float2& state) const {
    const float before[] = {state.x, state.y};
    float c[2], h[2];
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      float gates[Cell::kSaved];
      evaluate(sums + e, gates);
      c[e] = Cell::next_c(gates, before[e]);
      h[e] = Cell::next_h(gates, c[e], before[e]);
    }
    const std::int64_t at = row * args_.hidden + unit;
    float2 y = {h[0], h[1]}, h_after = y, c_after = {c[0], c[1]};
    if (!is_active(args_.lengths, row, args_.t)) {
      y = {};
      h_after = load_pair(static_cast<const T*>(args_.h_before) + at);
      c_after = state;
    }
    if constexpr (Cell::kHasCellState) store_pair(args_.c_after + at, c_after);
    store_pair(static_cast<T*>(args_.h_after) + at, h_after);
    store_pair(static_cast<T*>(args_.y) + row * args_.y_stride + unit, y);
  }

  const CellForwardArgs& args_;
  const int row_, unit_;  ///< the first ones
  float2 states_[kPairs * kHalves];
};

}  // namespace sluice::kernels::recurrent::cuda::joined_step
