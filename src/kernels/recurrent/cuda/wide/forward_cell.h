#pragma once

#include "kernels/recurrent/cuda/wide/cell_place.h"

/// The cells of a forward step.
namespace sluice::kernels::recurrent::cuda::wide {

template <typename T>
struct alignas(8) ForwardState {
  float c[kCells];
  T h[kCells];
};

template <typename Cell, typename T, bool kEven>
class ForwardCell {
 public:
  using State = ForwardState<T>;

  __device__ ForwardCell(const LayerForward& args, const Geometry& geometry,
                         const CellPlace<kEven>& place, const Part& part, std::byte* states)
      : args_(args),
        place_(place),
        direction_(part.direction),
        saved_by_gate_(geometry.saved_by_gate),
        states_(states, place.thread()) {
    const std::int64_t column =
        static_cast<std::int64_t>(direction_) * Cell::kGates * args.extent.hidden + place.unit();
#pragma unroll
    for (int u = 0; u < 2; ++u) {
#pragma unroll
      for (int g = 0; g < Cell::kGates; ++g) {
        bias_[u][g] = place.has_unit(u) ? args.bias[column + g * args.extent.hidden + u] : 0;
      }
      bias_hn_[u] = 0;
      if constexpr (!Cell::kHasCellState) {
        if (place.has_unit(u)) bias_hn_[u] = args.bias_hn[direction_][place.unit() + u];
      }
    }
  }

  /// Takes up the initial state of a tile, and writes the states that lie before the first of its
  /// `steps`.
  __device__ void begin(int tile, int steps) const {
    State& state = states_[tile];
#pragma unroll
    for (int i = 0; i < kCells; ++i) {
      state.c[i] = 0;
      store(state.h + i, 0);
      if (!place_.has(tile, i)) continue;
      const std::int64_t at = place_.at(direction_, tile, row_of(i)) + unit_of(i);
      if (args_.h0) state.h[i] = static_cast<const T*>(args_.h0)[at];
      if (Cell::kHasCellState && args_.c0) state.c[i] = args_.c0[at];
    }
    if (!training()) return;
    const bool reverse = place_.reversed();
    const int last = reverse ? args_.extent.time : 0;
    for (int i = reverse ? steps : 0; i <= last; ++i) write_state(tile, i);
  }

  __device__ void hand_on(int number, int tile) const {
    place_.hand_on(number, tile, 0, states_[tile].h);
    place_.tell(tile);
  }

  /// Begins to read what a step of a tile needs.
  __device__ void read(int tile, int time) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      lengths_[r] = place_.length(tile, r);
      const float* from = args_.input + place_.template gate_at<Cell::kGates>(time, tile, r);
#pragma unroll
      for (int g = 0; g < Cell::kGates; ++g) {
        next_[r][g] = next_[2 + r][g] = 0;
        if (!place_.has_row(tile, r)) continue;
        place_.load_units(from + g * args_.extent.hidden, next_[r][g], next_[2 + r][g]);
      }
    }
  }
  /// What was read is for the next step, and something else may be.
  __device__ void receive() {
#pragma unroll
    for (int i = 0; i < kCells; ++i) {
#pragma unroll
      for (int g = 0; g < Cell::kGates; ++g) {
        inputs_[i][g] = next_[i][g] + bias_[unit_of(i)][g];
      }
    }
    ends_[0] = lengths_[0];
    ends_[1] = lengths_[1];
  }

  /// Products of a thread: of each unit, of its pairs of gates, of each warpgroup a fragment, two
  /// gates of two rows.
  __device__ static void add_parts(const float4* parts, int warp, int lane,
                                   float (&products)[kCells][4]) {
    const float4* from = parts + warp * 32 + lane;
#pragma unroll
    for (int u = 0; u < 2; ++u) {
#pragma unroll
      for (int pair = 0; pair < 2; ++pair) {
        const float4 a = from[(2 * u + pair) * 128], b = from[(4 + 2 * u + pair) * 128];
        products[2 * u][2 * pair] = a.x + b.x;
        products[2 * u + 1][2 * pair] = a.y + b.y;
        products[2 * u][2 * pair + 1] = a.z + b.z;
        products[2 * u + 1][2 * pair + 1] = a.w + b.w;
      }
    }
  }

  /// Evaluates the cells at a time.
  __device__ void step(int tile, int time, const float (&products)[kCells][4]) {
    State& state = states_[tile];
    State now = state;
#pragma unroll
    for (int i = 0; i < kCells; ++i) {
      const int u = unit_of(i), r = row_of(i);
      float gates[Cell::kSaved];
#pragma unroll
      for (int k = 0; k < Cell::kSaved; ++k) {
        const int g = Cell::order(k), p = Cell::product_of(g);
        gates[g] = Cell::gate(g, inputs_[i][p], products[i][p], bias_hn_[u], gates);
      }
      gates_[i] = persistent::Four<T>(gates).bits;
      const bool active = time < ends_[r] && place_.has_unit(u);
      const float c = Cell::next_c(gates, now.c[i]);
      T h;
      store(&h, Cell::next_h(gates, c, load(now.h + i)));
      now.c[i] = active ? c : now.c[i];
      now.h[i] = active ? h : now.h[i];
    }
    state = now;
  }

  /// Writes what the step at that time has come to.
  __device__ void write(int tile, int time) const {
    const State& state = states_[tile];
    write_outputs(tile, time, state, ends_);
    if (!training()) return;
    write_state(tile, place_.reversed() ? time : time + 1);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      if (time >= ends_[r]) continue;
      if (saved_by_gate_) {
        save_by_gate(time, tile, r);
        continue;
      }
      uint2* to = static_cast<uint2*>(args_.saved[direction_]) + place_.at(time, tile, r);
      place_.store_units(to, gates_[r], gates_[2 + r]);
    }
  }

  /// Writes the outputs beyond the longest row of a tile, the states behind its last step, and the
  /// last ones.
  __device__ void finish(int tile, int steps) const {
    const State& state = states_[tile];
    const int none[2] = {0, 0};
    for (int t = steps; t < args_.extent.time; ++t) {
      write_outputs(tile, t, state, none);
      if (training() && !place_.reversed()) write_state(tile, t + 1);
    }
#pragma unroll
    for (int i = 0; i < kCells; ++i) {
      if (!place_.has(tile, i)) continue;
      const std::int64_t at = place_.at(direction_, tile, row_of(i)) + unit_of(i);
      if (args_.hn) static_cast<T*>(args_.hn)[at] = state.h[i];
      if (Cell::kHasCellState && args_.cn) args_.cn[at] = state.c[i];
    }
  }

 private:
  __device__ bool training() const { return args_.saved[0] != nullptr; }

  __device__ void save_by_gate(int time, int tile, int r) const {
    const int hidden = args_.extent.hidden;
    auto* to = static_cast<std::uint16_t*>(args_.saved[direction_]) +
               place_.line(time, tile, r) * static_cast<std::int64_t>(Cell::kSaved * hidden) +
               place_.unit();
#pragma unroll
    for (int g = 0; g < Cell::kSaved; ++g) {
      const auto bits = [&](const uint2& gates) {
        return static_cast<std::uint16_t>((g < 2 ? gates.x : gates.y) >> g % 2 * 16);
      };
      place_.store_units(to + g * hidden, bits(gates_[r]), bits(gates_[2 + r]));
    }
  }

  /// Past a row's end zero.
  __device__ void write_outputs(int tile, int time, const State& state,
                                const int (&ends)[2]) const {
    T zero;
    store(&zero, 0);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      if (!place_.has_row(tile, r)) continue;
      const bool active = time < ends[r];
      T* y = static_cast<T*>(args_.y) + place_.template gate_at<1>(time, tile, r);
      place_.store_units(y, active ? state.h[r] : zero, active ? state.h[2 + r] : zero);
      if (Cell::kHasCellState && args_.c_sequence) {
        float* c = args_.c_sequence + place_.at(direction_ * args_.extent.time + time, tile, r);
        place_.store_units(c, active ? state.c[r] : 0.0f, active ? state.c[2 + r] : 0.0f);
      }
    }
  }

  /// Writes the state into the arrays of states that backward reads.
  __device__ void write_state(int tile, int index) const {
    const State& state = states_[tile];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      if (!place_.has_row(tile, r)) continue;
      const std::int64_t at = place_.at(index, tile, r);
      place_.store_units(static_cast<T*>(args_.h_states[direction_]) + at, state.h[r],
                         state.h[2 + r]);
      if constexpr (Cell::kHasCellState) {
        place_.store_units(args_.c_states[direction_] + at, state.c[r], state.c[2 + r]);
      }
    }
  }

  const LayerForward& args_;
  const CellPlace<kEven>& place_;
  const int direction_;
  const bool saved_by_gate_;
  const StateMemory<State> states_;
  float bias_[2][Cell::kGates], bias_hn_[2];
  float next_[kCells][Cell::kGates], inputs_[kCells][Cell::kGates];
  int lengths_[2], ends_[2];
  uint2 gates_[kCells];  ///< as they are stored
};

}  // namespace sluice::kernels::recurrent::cuda::wide
