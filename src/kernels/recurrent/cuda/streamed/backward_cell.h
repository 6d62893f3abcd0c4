#pragma once

#include "kernels/recurrent/cuda/streamed/cell_place.h"

/// The cells of a backward step.
namespace sluice::kernels::recurrent::cuda::streamed {

template <typename Cell, typename T>
class BackwardCell {
 public:
  __device__ BackwardCell(const LayerBackward& args, const CellPlace& place)
      : args_(args), place_(place) {
    for (int u = 0; u < kCells; ++u) {
      dh_[u] = dc_[u] = c_after_[u] = c_before_[u] = 0;
      saved_[u] = {};
      store(h_before_ + u, 0);
      store(dy_ + u, 0);
      if (!place.exists() || !place.has_unit(u)) continue;
      if (args.dhn) dh_[u] = load(static_cast<const T*>(args.dhn) + place.at(0) + u);
      if (Cell::kHasCellState && args.dcn) dc_[u] = args.dcn[place.at(0) + u];
    }
  }

  /// Begins to read what the step at that time takes.
  __device__ void read(int time) {
    if (time >= place_.length()) return;
    place_.load_units(static_cast<const uint2*>(args_.saved[0]) + place_.at(time), saved_);
    if constexpr (Cell::kHasCellState) {
      place_.load_units(args_.c_states[0] + place_.at(time), c_before_);
      place_.load_units(args_.c_states[0] + place_.at(time + 1), c_after_);
    } else {
      place_.load_units(static_cast<const T*>(args_.h_states[0]) + place_.at(time), h_before_);
    }
    if (args_.dy) place_.load_units(static_cast<const T*>(args_.dy) + place_.at(time), dy_);
  }

  /// Adds the product of the `number`-th published gradients to dh.
  __device__ void add(int number) {
    if (!place_.exists()) return;
    const float2 sum = place_.sum<kBackwardCluster>(number, 0);
    dh_[0] += sum.x;
    dh_[1] += sum.y;
  }

  /// The step: from the gradients of the state after it to those of the state before it (of h only
  /// what doesn't take the product) and of the gates.
  __device__ void step(int time) {
    const bool active = time < place_.length();
    float d_gates[Cell::kGates][kCells], d_recurrent[Cell::kGates][kCells];
#pragma unroll
    for (int u = 0; u < kCells; ++u) {
      const bool steps = active && place_.has_unit(u);
      float gates[4], dc = 0;
      persistent::Four<T>(saved_[u]).unpack(gates);
      const float dh = dh_[u] + (args_.dy ? load(dy_ + u) : 0.0f);
      if constexpr (Cell::kHasCellState) dc = Cell::whole_dc(gates, c_after_[u], dh, dc_[u]);
#pragma unroll
      for (int g = 0; g < Cell::kGates; ++g) {
        const float d =
            Cell::d_gate(g, gates, c_before_[u], c_after_[u], load(h_before_ + u), dh, dc);
        d_gates[g][u] = steps ? d : 0.0f;
        d_recurrent[g][u] = steps ? Cell::d_recurrent(g, gates, d) : 0.0f;
      }
      if (!steps) continue;
      dh_[u] = Cell::dh_direct(gates, dh);
      dc_[u] = Cell::dc_before(gates, dc);
    }
#pragma unroll
    for (int g = 0; g < Cell::kGates; ++g) {
      d_gates_[g] = Pair<T>(d_gates[g][0], d_gates[g][1]);
      d_recurrent_[g] = Pair<T>(d_recurrent[g][0], d_recurrent[g][1]);
    }
  }

  __device__ void hand_on(int number) const {
    if (!place_.exists()) return;
#pragma unroll
    for (int g = 0; g < Cell::kGates; ++g) place_.hand_on(number, g, d_recurrent_[g].bits);
  }

  __device__ void write(int time) const {
    if (!place_.exists()) return;
    const std::int64_t at = place_.template gate_at<Cell::kGates>(time);
#pragma unroll
    for (int g = 0; g < Cell::kGates; ++g) {
      const std::int64_t to = at + g * args_.extent.hidden;
      place_.store_units(static_cast<T*>(args_.d_input) + to, d_gates_[g]);
      if constexpr (!Cell::kHasCellState) {
        place_.store_units(static_cast<T*>(args_.d_recurrent[0]) + to, d_recurrent_[g]);
      }
    }
  }

  /// Past the end of all rows there are no gradients of gates; writes those of the initial state.
  __device__ void finish(int steps) {
    if (!place_.exists()) return;
#pragma unroll
    for (int g = 0; g < Cell::kGates; ++g) d_gates_[g] = d_recurrent_[g] = {};
    for (int t = steps; t < args_.extent.time; ++t) write(t);
    for (int u = 0; u < kCells; ++u) {
      if (!place_.has_unit(u)) continue;
      if (args_.dh0) store(static_cast<T*>(args_.dh0) + place_.at(0) + u, dh_[u]);
      if (Cell::kHasCellState && args_.dc0) args_.dc0[place_.at(0) + u] = dc_[u];
    }
  }

 private:
  const LayerBackward& args_;
  const CellPlace& place_;
  float dh_[kCells], dc_[kCells];
  uint2 saved_[kCells];
  float c_before_[kCells], c_after_[kCells];
  T h_before_[kCells], dy_[kCells];
  Pair<T> d_gates_[Cell::kGates], d_recurrent_[Cell::kGates];
};

}  // namespace sluice::kernels::recurrent::cuda::streamed
