#pragma once

#include "kernels/recurrent/cuda/wide/cell_place.h"

/// The cells of a backward step.
namespace sluice::kernels::recurrent::cuda::wide {

struct alignas(16) BackwardState {
  float dh[kCells], dc[kCells];
};

template <typename Cell, typename T, bool kEven>
class BackwardCell {
 public:
  using State = BackwardState;

  __device__ BackwardCell(const LayerBackward& args, const CellPlace<kEven>& place,
                          const Part& part, std::byte* states)
      : args_(args), place_(place), direction_(part.direction), states_(states, place.thread()) {}

  /// Takes up the gradients of a tile's last state.
  __device__ void begin(int tile) const {
    State& state = states_[tile];
#pragma unroll
    for (int i = 0; i < kCells; ++i) {
      state.dh[i] = state.dc[i] = 0;
      if (!place_.has(tile, i)) continue;
      const std::int64_t at = state_at(tile, i);
      if (args_.dhn) state.dh[i] = load(static_cast<const T*>(args_.dhn) + at);
      if (Cell::kHasCellState && args_.dcn) state.dc[i] = args_.dcn[at];
    }
  }

  /// Begins to read what forward left of a step of a tile, and what flows into it.
  __device__ void read(int tile, int time) {
    const int before = place_.reversed() ? time + 1 : time;
    const int after = place_.reversed() ? time : time + 1;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      next_.active[r] = time < place_.length(tile, r);
      const std::int64_t at = place_.at(time, tile, r);
      const std::int64_t before_at = place_.at(before, tile, r);
      const std::int64_t after_at = place_.at(after, tile, r);
#pragma unroll
      for (int u = 0; u < 2; ++u) {
        const int i = 2 * u + r;
        next_.gates[i] = {0, 0};
        next_.c[i] = next_.c_before[i] = 0;
        next_.h_before[i] = next_.dy[i] = 0;
      }
      if (!next_.active[r]) continue;
      place_.load_units(static_cast<const uint2*>(args_.saved[direction_]) + at, next_.gates[r],
                        next_.gates[2 + r]);
      if constexpr (Cell::kHasCellState) {
        const float* c = args_.c_states[direction_];
        place_.load_units(c + before_at, next_.c_before[r], next_.c_before[2 + r]);
        place_.load_units(c + after_at, next_.c[r], next_.c[2 + r]);
      } else {
        const auto* h = static_cast<const std::uint16_t*>(args_.h_states[direction_]);
        place_.load_units(h + before_at, next_.h_before[r], next_.h_before[2 + r]);
      }
      if (args_.dy) {
        const auto* dy = static_cast<const std::uint16_t*>(args_.dy);
        place_.load_units(dy + place_.template gate_at<1>(time, tile, r), next_.dy[r],
                          next_.dy[2 + r]);
      }
    }
  }

  /// Makes of what was read what the step will multiply dh and dc with: all that can be done before
  /// dh is there.
  __device__ void receive() {
#pragma unroll
    for (int i = 0; i < kCells; ++i) {
      Factors& factors = factors_[i];
      persistent::Four<T>(next_.gates[i]).unpack(factors.values);
      const float c_before = next_.c_before[i], h_before = value_of(next_.h_before[i]);
      if constexpr (Cell::kHasCellState) {
        factors.dc_of_dh = Cell::whole_dc(factors.values, next_.c[i], 1.0f, 0.0f);
      }
#pragma unroll
      for (int g = 0; g < Cell::kGates; ++g) {
        const bool takes_dh = Cell::takes_dh(g);
        factors.gates[g] = Cell::d_gate(g, factors.values, c_before, next_.c[i], h_before,
                                        takes_dh ? 1.0f : 0.0f, takes_dh ? 0.0f : 1.0f);
      }
      factors.dy = value_of(next_.dy[i]);
      factors.active = next_.active[row_of(i)] && place_.has_unit(unit_of(i));
    }
  }

  /// Adds the parts of dh that came from the blocks which have a part of the depth each.
  __device__ void add_parts(int tile, const float4* parts) const {
    constexpr int kSources = 8;
    const float4* from = parts + place_.warp() * 32 + place_.lane();
    float4 values[kSources];
#pragma unroll
    for (int i = 0; i < kSources; ++i) values[i] = from[i * 128];
    float sums[kCells];
    sums[0] = sums[1] = sums[2] = sums[3] = 0;
#pragma unroll
    for (int i = 0; i < kSources; ++i) {
      sums[0] += values[i].x;
      sums[1] += values[i].y;
      sums[2] += values[i].z;
      sums[3] += values[i].w;
    }
    State& state = states_[tile];
#pragma unroll
    for (int i = 0; i < kCells; ++i) state.dh[i] += sums[i];
  }

  /// The step: from the gradients of the state after it to those of the state before it (of h only
  /// what doesn't take the product) and of the gates.
  __device__ void step(int tile) {
    State now = states_[tile];
#pragma unroll
    for (int i = 0; i < kCells; ++i) {
      const Factors& factors = factors_[i];
      const float dh = now.dh[i] + factors.dy;
      float dc = 0;
      if constexpr (Cell::kHasCellState) dc = fmaf(dh, factors.dc_of_dh, now.dc[i]);
#pragma unroll
      for (int g = 0; g < Cell::kGates; ++g) {
        const float d = factors.active ? (Cell::takes_dh(g) ? dh : dc) * factors.gates[g] : 0.0f;
        store(&d_gates_[g][i], d);
        if constexpr (!Cell::kHasCellState) {
          store(&d_recurrent_[g][i],
                factors.active ? Cell::d_recurrent(g, factors.values, d) : 0.0f);
        }
      }
      if constexpr (Cell::kHasCellState) {
        now.dc[i] = factors.active ? Cell::dc_before(factors.values, dc) : now.dc[i];
      }
      now.dh[i] = factors.active ? Cell::dh_direct(factors.values, dh) : now.dh[i];
    }
    states_[tile] = now;
  }

  __device__ void hand_on(int number, int tile) const {
#pragma unroll
    for (int g = 0; g < Cell::kGates; ++g) {
      place_.hand_on(number, tile, g, Cell::kHasCellState ? d_gates_[g] : d_recurrent_[g]);
    }
    place_.tell(tile);
  }

  __device__ void write(int tile, int time) const {
    const int hidden = args_.extent.hidden;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      if (!place_.has_row(tile, r)) continue;
      T* to = static_cast<T*>(args_.d_input) + place_.template gate_at<Cell::kGates>(time, tile, r);
#pragma unroll
      for (int g = 0; g < Cell::kGates; ++g) {
        place_.store_units(to + g * hidden, d_gates_[g][r], d_gates_[g][2 + r]);
      }
      if constexpr (!Cell::kHasCellState) {
        T* recurrent =
            static_cast<T*>(args_.d_recurrent[direction_]) +
            place_.line(time, tile, r) * static_cast<std::int64_t>(Cell::kGates * hidden) +
            place_.unit();
#pragma unroll
        for (int g = 0; g < Cell::kGates; ++g) {
          place_.store_units(recurrent + g * hidden, d_recurrent_[g][r], d_recurrent_[g][2 + r]);
        }
      }
    }
  }

  /// Past the end of all rows of a tile there are no gradients of gates; writes those of the
  /// initial state.
  __device__ void finish(int tile, int steps) {
#pragma unroll
    for (int g = 0; g < Cell::kGates; ++g) {
#pragma unroll
      for (int i = 0; i < kCells; ++i) {
        store(&d_gates_[g][i], 0);
        if constexpr (!Cell::kHasCellState) store(&d_recurrent_[g][i], 0);
      }
    }
    for (int t = steps; t < args_.extent.time; ++t) write(tile, t);
    const State& state = states_[tile];
#pragma unroll
    for (int i = 0; i < kCells; ++i) {
      if (!place_.has(tile, i)) continue;
      const std::int64_t at = state_at(tile, i);
      if (args_.dh0) store(static_cast<T*>(args_.dh0) + at, state.dh[i]);
      if (Cell::kHasCellState && args_.dc0) args_.dc0[at] = state.dc[i];
    }
  }

 private:
  /// As it comes, so that nothing waits for it before it is used.
  struct Read {
    uint2 gates[kCells];
    float c_before[kCells], c[kCells];
    std::uint16_t h_before[kCells], dy[kCells];  ///< bits
    bool active[2];
  };
  struct Factors {
    float values[4];            ///< of the gates after activation
    float gates[Cell::kGates];  ///< of dh or dc, in their gradients
    float dc_of_dh = 0, dy;
    bool active;
  };

  __device__ static float value_of(const std::uint16_t& bits) {
    return load(reinterpret_cast<const T*>(&bits));
  }
  __device__ std::int64_t state_at(int tile, int cell) const {
    return place_.at(direction_, tile, row_of(cell)) + unit_of(cell);
  }

  const LayerBackward& args_;
  const CellPlace<kEven>& place_;
  const int direction_;
  const StateMemory<State> states_;
  Read next_;
  Factors factors_[kCells];
  T d_gates_[Cell::kGates][kCells], d_recurrent_[Cell::kGates][kCells];
};

}  // namespace sluice::kernels::recurrent::cuda::wide
