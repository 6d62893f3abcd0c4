#pragma once

#include "kernels/recurrent/cuda/wide/inputs.h"

/// The cells of a forward step.
namespace sluice::kernels::recurrent::cuda::wide {

template <typename T>
struct alignas(sizeof(T) == 4 ? 16 : 4) ForwardState {
  float c[kCells];
  T h[kCells];
};

template <typename Cell, typename Arithmetic, bool kEven>
class ForwardCell {
  using T = typename Arithmetic::Storage;
  using Four = persistent::Four<T>;

 public:
  __device__ ForwardCell(const LayerForward& args, const Geometry& geometry,
                         const CellPlace<kEven>& place, const Part& part, std::byte* states,
                         std::byte* inputs)
      : args_(args),
        geometry_(geometry),
        place_(place),
        direction_(part.direction),
        states_(states, place.thread()),
        memory_(inputs, place.thread()) {
    static_assert(sizeof(State) == forward_bytes(sizeof(T)).state);
    const std::int64_t column =
        static_cast<std::int64_t>(direction_) * Cell::kGates * args.extent.hidden + place.unit();
#pragma unroll
    for (int u = 0; u < kCells; ++u) {
#pragma unroll
      for (int g = 0; g < Cell::kGates; ++g) {
        bias_[u][g] = place.has_unit(u) ? args.bias[column + g * args.extent.hidden + u] : 0;
      }
      bias_hn_[u] = 0;
      if constexpr (!Cell::kHasCellState) {
        if (place.has_unit(u)) bias_hn_[u] = args.bias_hn[direction_][place.unit() + u];
      }
    }
    if constexpr (Arithmetic::kScaled) {
      // h never exceeds 1, or the initial one.
      scale_ = persistent::Scale(fmaxf(1.0f, *geometry.largest_h0));
      scale_.down *= persistent::Scale(*args.largest[direction_]).down;
    }
  }

  /// Takes up the initial state of a tile, and writes the states that lie before the first of its
  /// `steps`.
  __device__ void begin(int tile, int steps) const {
    State& state = states_[tile];
    const std::int64_t at = place_.at(direction_, tile);
#pragma unroll
    for (int u = 0; u < kCells; ++u) {
      state.c[u] = 0;
      store(state.h + u, 0);
      if (!place_.has(tile, u)) continue;
      if (args_.h0) state.h[u] = static_cast<const T*>(args_.h0)[at + u];
      if (Cell::kHasCellState && args_.c0) state.c[u] = args_.c0[at + u];
    }
    if (!training()) return;
    const bool reverse = place_.reversed();
    const int last = reverse ? args_.extent.time : 0;
    for (int i = reverse ? steps : 0; i <= last; ++i) write_state(tile, i);
  }

  __device__ void hand_on(int number, int tile) const {
    const State& state = states_[tile];
    std::uint32_t h[1];
    if constexpr (Arithmetic::kScaled) {
      h[0] = Pair<typename Arithmetic::Factor>(state.h[0] * scale_.up, state.h[1] * scale_.up).bits;
    } else {
      memcpy(h, state.h, sizeof(h));
    }
    place_.hand_on(number, tile, h);
    place_.tell(tile);
  }

  /// Takes what was read for the next step.
  __device__ void receive(int slot) {
#pragma unroll
    for (int u = 0; u < kCells; ++u) {
#pragma unroll
      for (int g = 0; g < Cell::kGates; ++g) {
        inputs_[u][g] = memory_.products(slot, g)[u] + bias_[u][g];
      }
    }
  }

  /// Products of a thread: of each unit, of its pairs of gates, of each warpgroup a part. Those of
  /// a warp lie next to each other.
  __device__ void add_parts(const float2* parts, float (&products)[kCells][4]) const {
    const int thread = place_.thread();
    const float2* from = parts + thread % 128 / 32 * 64 + thread / 128 * 32 + place_.lane();
#pragma unroll
    for (int u = 0; u < kCells; ++u) {
#pragma unroll
      for (int pair = 0; pair < 2; ++pair) {
        const float2 a = from[(2 * u + pair) * 256], b = from[(4 + 2 * u + pair) * 256];
        products[u][2 * pair] = (a.x + b.x) * scale_.down;
        products[u][2 * pair + 1] = (a.y + b.y) * scale_.down;
      }
    }
  }

  /// Evaluates the cells at a time.
  __device__ void step(int tile, int time, const float (&products)[kCells][4]) {
    State& state = states_[tile];
    State now = state;
    active_ = time < place_.length(tile);
#pragma unroll
    for (int u = 0; u < kCells; ++u) {
      float gates[Cell::kSaved];
      Cell::evaluate(inputs_[u], products[u], bias_hn_[u], gates);
      gates_[u] = Four(gates).bits;
      const bool active = active_ && place_.has_unit(u);
      const float c = Cell::next_c(gates, now.c[u]);
      T h;
      store(&h, Cell::next_h(gates, c, load(now.h + u)));
      now.c[u] = active ? c : now.c[u];
      now.h[u] = active ? h : now.h[u];
    }
    state = now;
  }

  /// Writes what the step at that time has come to.
  __device__ void write(int tile, int time) const {
    write_outputs(tile, time, active_);
    if (!training()) return;
    write_state(tile, place_.reversed() ? time : time + 1);
    if (!active_) return;
    if (geometry_.saved_by_gate) {
      save_by_gate(time, tile);
    } else {
      place_.store_units(
          static_cast<typename Four::Bits*>(args_.saved[direction_]) + place_.at(time, tile),
          gates_);
    }
  }

  /// Writes the outputs beyond the longest row of a tile, the states behind its last step, and the
  /// last ones.
  __device__ void finish(int tile, int steps) const {
    for (int t = steps; t < args_.extent.time; ++t) {
      write_outputs(tile, t, false);
      if (training() && !place_.reversed()) write_state(tile, t + 1);
    }
    const State& state = states_[tile];
    const std::int64_t at = place_.at(direction_, tile);
#pragma unroll
    for (int u = 0; u < kCells; ++u) {
      if (!place_.has(tile, u)) continue;
      if (args_.hn) static_cast<T*>(args_.hn)[at + u] = state.h[u];
      if (Cell::kHasCellState && args_.cn) args_.cn[at + u] = state.c[u];
    }
  }

 private:
  using State = ForwardState<T>;

  __device__ bool training() const { return args_.saved[0] != nullptr; }

  __device__ void save_by_gate(int time, int tile) const {
    const int hidden = args_.extent.hidden;
    T* to = static_cast<T*>(args_.saved[direction_]) +
            multiply_wide(place_.line(time, tile), Cell::kSaved * hidden, place_.unit());
#pragma unroll
    for (int g = 0; g < Cell::kSaved; ++g) {
      Pair<T> values;
      if constexpr (sizeof(T) == 2) {
        values = pair_of_gate<T>(gates_, g);
      } else {
        const auto gate = [&](const uint4& all) {
          return __uint_as_float(g == 0 ? all.x : g == 1 ? all.y : g == 2 ? all.z : all.w);
        };
        values = {gate(gates_[0]), gate(gates_[1])};
      }
      place_.store_units(to + g * hidden, values);
    }
  }

  /// Past a row's end zero.
  __device__ void write_outputs(int tile, int time, bool active) const {
    if (!place_.has_row(tile)) return;
    State state = states_[tile];
#pragma unroll
    for (int u = 0; u < kCells; ++u) {
      if (active) continue;
      state.c[u] = 0;
      store(state.h + u, 0);
    }
    place_.store_units(static_cast<T*>(args_.y) + place_.template gate_at<1>(time, tile), state.h);
    if (Cell::kHasCellState && args_.c_sequence) {
      place_.store_units(args_.c_sequence + place_.at(direction_ * args_.extent.time + time, tile),
                         state.c);
    }
  }

  /// Writes the state into the arrays of states that backward reads.
  __device__ void write_state(int tile, int index) const {
    if (!place_.has_row(tile)) return;
    const State& state = states_[tile];
    const std::int64_t at = place_.at(index, tile);
    place_.store_units(static_cast<T*>(args_.h_states[direction_]) + at, state.h);
    if constexpr (Cell::kHasCellState) {
      place_.store_units(args_.c_states[direction_] + at, state.c);
    }
  }

  const LayerForward& args_;
  const Geometry& geometry_;
  const CellPlace<kEven>& place_;
  const int direction_;
  const StateMemory<State> states_;
  const ForwardInputs<T> memory_;
  float bias_[kCells][Cell::kGates], bias_hn_[kCells];
  float inputs_[kCells][Cell::kGates];
  bool active_ = false;
  persistent::Scale scale_;            ///< of h, and what takes it and that of weights back
  typename Four::Bits gates_[kCells];  ///< as they are stored
};

}  // namespace sluice::kernels::recurrent::cuda::wide
