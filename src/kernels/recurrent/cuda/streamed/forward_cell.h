#pragma once

#include "kernels/recurrent/cuda/streamed/cell_place.h"

/// The cells of a forward step.
namespace sluice::kernels::recurrent::cuda::streamed {

template <typename Cell, typename T>
class ForwardCell {
 public:
  __device__ ForwardCell(const LayerForward& args, const Geometry& geometry, const CellPlace& place)
      : args_(args), geometry_(geometry), place_(place) {
    for (int u = 0; u < kCells; ++u) {
      bias_hn_[u] = c_[u] = 0;
      store(h_ + u, 0);
#pragma unroll
      for (int g = 0; g < Cell::kGates; ++g) inputs_[g][u] = 0;
      if (!place.exists() || !place.has_unit(u)) continue;
      const int unit = place.unit() + u;
      if (!Cell::kHasCellState) bias_hn_[u] = args.bias_hn[0][unit];
      if (args.h0) h_[u] = static_cast<const T*>(args.h0)[place.at(0) + u];
      if (Cell::kHasCellState && args.c0) c_[u] = args.c0[place.at(0) + u];
    }
    if (training()) write_state(0);
  }

  /// Reads what the step at that time takes: ahead of its sums, so that nothing waits for it, nor
  /// has to keep the biases.
  __device__ void read(int time) {
    if (time >= place_.length()) return;
    const float* from = args_.input + place_.template gate_at<Cell::kGates>(time);
    int unit = place_.unit();
    // Worked out anew each time: there are no registers to keep addresses in.
    asm volatile("" : "+r"(unit));
    const float* bias = args_.bias + unit;
    float biases[Cell::kGates][kCells]{};
#pragma unroll
    for (int g = 0; g < Cell::kGates; ++g) {
      place_.load_units(from + g * args_.extent.hidden, inputs_[g]);
      place_.load_units(bias + g * args_.extent.hidden, biases[g]);
    }
#pragma unroll
    for (int g = 0; g < Cell::kGates; ++g) {
      for (int u = 0; u < kCells; ++u) inputs_[g][u] += biases[g][u];
    }
  }
  __device__ void hand_on(int number) const {
    if (!place_.exists()) return;
    std::uint32_t bits;
    memcpy(&bits, h_, sizeof(bits));
    place_.hand_on(number, 0, bits);
  }

  /// Evaluates the cells at a time, whose sums are there.
  __device__ void step(int time) {
    if (!place_.exists()) return;
    float products[kCells][4];
#pragma unroll
    for (int g = 0; g < Cell::kGates; ++g) {
      const float2 sum = place_.sum<kForwardCluster>(time, g * geometry_.pairs);
      products[0][g] = sum.x;
      products[1][g] = sum.y;
    }
    active_ = time < place_.length();
#pragma unroll
    for (int u = 0; u < kCells; ++u) {
      float x[Cell::kGates], gates[Cell::kSaved];
#pragma unroll
      for (int g = 0; g < Cell::kGates; ++g) x[g] = inputs_[g][u];
      Cell::evaluate(x, products[u], bias_hn_[u], gates);
      saved_[u] = persistent::Four<T>(gates).bits;
      if (!active_ || !place_.has_unit(u)) continue;
      c_[u] = Cell::next_c(gates, c_[u]);
      store(h_ + u, Cell::next_h(gates, c_[u], load(h_ + u)));
    }
  }

  /// Writes what the step at that time has come to.
  __device__ void write(int time) const {
    if (!place_.exists()) return;
    write_outputs(time, active_);
    if (!training()) return;
    write_state(time + 1);
    if (!active_) return;
    if (!geometry_.saved_by_gate) {
      place_.store_units(static_cast<uint2*>(args_.saved[0]) + place_.at(time), saved_);
      return;
    }
    T* to = static_cast<T*>(args_.saved[0]) + place_.template gate_at<Cell::kSaved>(time);
#pragma unroll
    for (int g = 0; g < Cell::kSaved; ++g) {
      place_.store_units(to + g * args_.extent.hidden, wide::pair_of_gate<T>(saved_, g));
    }
  }

  /// Writes the outputs beyond the longest row, the states behind the last step, and the last ones.
  __device__ void finish(int steps) const {
    if (!place_.exists()) return;
    for (int t = steps; t < args_.extent.time; ++t) {
      write_outputs(t, false);
      if (training()) write_state(t + 1);
    }
    for (int u = 0; u < kCells; ++u) {
      if (!place_.has_unit(u)) continue;
      if (args_.hn) static_cast<T*>(args_.hn)[place_.at(0) + u] = h_[u];
      if (Cell::kHasCellState && args_.cn) args_.cn[place_.at(0) + u] = c_[u];
    }
  }

 private:
  __device__ bool training() const { return args_.saved[0] != nullptr; }

  /// Past a row's end zero.
  __device__ void write_outputs(int time, bool active) const {
    T h[kCells];
    float c[kCells];
#pragma unroll
    for (int u = 0; u < kCells; ++u) {
      h[u] = h_[u];
      if (!active) store(h + u, 0);
      c[u] = active ? c_[u] : 0;
    }
    place_.store_units(static_cast<T*>(args_.y) + place_.at(time), h);
    if (Cell::kHasCellState && args_.c_sequence) {
      place_.store_units(args_.c_sequence + place_.at(time), c);
    }
  }
  /// Writes the state into the arrays of states that backward reads.
  __device__ void write_state(int index) const {
    if (!place_.exists()) return;
    place_.store_units(static_cast<T*>(args_.h_states[0]) + place_.at(index), h_);
    if constexpr (Cell::kHasCellState) {
      place_.store_units(args_.c_states[0] + place_.at(index), c_);
    }
  }

  const LayerForward& args_;
  const Geometry& geometry_;
  const CellPlace& place_;
  float bias_hn_[kCells];
  float inputs_[Cell::kGates][kCells];  ///< with the biases
  float c_[kCells];
  T h_[kCells];
  bool active_ = false;
  uint2 saved_[kCells];
};

}  // namespace sluice::kernels::recurrent::cuda::streamed
