#pragma once

#include "kernels/recurrent/cuda/wide/inputs.h"
#include "kernels/recurrent/cuda/wide/scaled_values.h"

/// The cells of a backward step.
namespace sluice::kernels::recurrent::cuda::wide {

struct alignas(16) BackwardState {
  float dh[kCells], dc[kCells];
};
static_assert(sizeof(BackwardState) == backward_bytes(2).state);

template <typename Cell, typename Arithmetic, bool kEven>
class BackwardCell {
  using T = typename Arithmetic::Storage;
  static constexpr bool kWritesScaled = Arithmetic::kScaled && Cell::kHasCellState;

 public:
  __device__ BackwardCell(const LayerBackward& args, const Geometry& geometry,
                          const CellPlace<kEven>& place, const Part& part,
                          const ScaledValues& scaled, std::byte* states, std::byte* inputs)
      : args_(args),
        place_(place),
        direction_(part.direction),
        states_(states, place.thread()),
        scaled_(scaled),
        inputs_(inputs, place, geometry.boxes),
        exponents_(geometry, args.extent.directions, part) {
    if constexpr (Arithmetic::kScaled) {
      unscale_weights_ = persistent::Scale(*args.largest[direction_]).down;
    }
  }

  /// Takes up the gradients of a tile's last state.
  __device__ void begin(int tile) const {
    State state{};
    const std::int64_t at = place_.at(direction_, tile);
#pragma unroll
    for (int u = 0; u < kCells; ++u) {
      if (!place_.has(tile, u)) continue;
      if (args_.dhn) state.dh[u] = load(static_cast<const T*>(args_.dhn) + at + u);
      if (Cell::kHasCellState && args_.dcn) state.dc[u] = args_.dcn[at + u];
    }
    states_[tile] = state;
  }

  /// Makes of what was read what the step will multiply dh and dc with: all that can be done before
  /// dh is there.
  __device__ void receive(int tile, int time, int slot) {
    active_ = time < place_.length(tile);
#pragma unroll
    for (int u = 0; u < kCells; ++u) {
      Factors& factors = factors_[u];
      persistent::Four<T>(*inputs_.saved(slot, u)).unpack(factors.values);
      float c_before = 0, c_after = 0, h_before = 0;
      if constexpr (Cell::kHasCellState) {
        c_before = inputs_.c_before(slot)[u];
        if constexpr (BackwardInputs<T>::kReadsAfter) {
          c_after = inputs_.c_after(slot)[u];
        } else {
          c_after = Cell::next_c(factors.values, c_before);
        }
        factors.dc_of_dh = Cell::whole_dc(factors.values, c_after, 1.0f, 0.0f);
      } else {
        h_before = load(inputs_.h_before(slot) + u);
      }
#pragma unroll
      for (int g = 0; g < Cell::kGates; ++g) {
        const bool takes_dh = Cell::takes_dh(g);
        factors.gates[g] = Cell::d_gate(g, factors.values, c_before, c_after, h_before,
                                        takes_dh ? 1.0f : 0.0f, takes_dh ? 0.0f : 1.0f);
      }
      factors.dy = args_.dy ? load(inputs_.dy(slot) + u) : 0.0f;
    }
  }

  /// The sum of the parts of a tile's dh that came from the blocks which have a part of the depth
  /// each.
  __device__ float2 sum_of(const float4* parts, int tile) const {
    const float2* from = place_.sums_in(parts);
    float2 values[kBlocksOfChunk];
#pragma unroll
    for (int i = 0; i < kBlocksOfChunk; ++i) values[i] = from[i * 256];
    float2 sums = values[0];
#pragma unroll
    for (int i = 1; i < kBlocksOfChunk; ++i) {
      sums.x += values[i].x;
      sums.y += values[i].y;
    }
    if constexpr (Arithmetic::kScaled) {
      const float unscale = scaled_.down(tile, place_.tile_place());
      sums.x = sums.x * unscale * unscale_weights_;
      sums.y = sums.y * unscale * unscale_weights_;
    }
    return sums;
  }
  /// Adds to dh of the initial state.
  __device__ void add(int tile, const float2& sums) const {
    states_[tile].dh[0] += sums.x;
    states_[tile].dh[1] += sums.y;
  }

  /// The step: from the gradients of the state after it, whose product has come to `sums`, to those
  /// of the state before it (of h only what doesn't take the product) and of the gates.
  __device__ void step(int tile, const float2& sums) {
    State now = states_[tile];
    now.dh[0] += sums.x;
    now.dh[1] += sums.y;
    float d_gates[Cell::kGates][kCells], d_recurrent[Cell::kGates][kCells];
#pragma unroll
    for (int u = 0; u < kCells; ++u) {
      const Factors& factors = factors_[u];
      const bool active = active_ && place_.has_unit(u);
      const float dh = now.dh[u] + factors.dy;
      float dc = 0;
      if constexpr (Cell::kHasCellState) dc = fmaf(dh, factors.dc_of_dh, now.dc[u]);
#pragma unroll
      for (int g = 0; g < Cell::kGates; ++g) {
        const float d = active ? (Cell::takes_dh(g) ? dh : dc) * factors.gates[g] : 0.0f;
        d_gates[g][u] = d;
        d_recurrent[g][u] = active ? Cell::d_recurrent(g, factors.values, d) : 0.0f;
      }
      if constexpr (Cell::kHasCellState) {
        now.dc[u] = active ? Cell::dc_before(factors.values, dc) : now.dc[u];
      }
      now.dh[u] = active ? Cell::dh_direct(factors.values, dh) : now.dh[u];
    }
    states_[tile] = now;
#pragma unroll
    for (int g = 0; g < Cell::kGates; ++g) {
      d_gates_[g] = Pair<T>(d_gates[g][0], d_gates[g][1]);
      if constexpr (!Cell::kHasCellState) {
        d_recurrent_[g] = Pair<T>(d_recurrent[g][0], d_recurrent[g][1]);
      }
    }
  }

  /// Hands the gradients on, or lays them down to be scaled and tells all blocks how large they
  /// are.
  __device__ void hand_on(const Item& item) const {
    if constexpr (Arithmetic::kScaled) {
      lay_down(item);
      arrive(place_.written(item.tile));
    } else {
      std::uint32_t gates[Cell::kGates];
#pragma unroll
      for (int g = 0; g < Cell::kGates; ++g) gates[g] = handed_on()[g].bits;
      place_.hand_on(item.number, item.tile, gates);
      place_.tell(item.tile);
    }
  }

  __device__ void write(int tile, int time) const {
    if (!place_.has_row(tile) || args_.d_input == nullptr) return;
    const int hidden = args_.extent.hidden;
    T* to = static_cast<T*>(args_.d_input) + place_.template gate_at<Cell::kGates>(time, tile);
#pragma unroll
    for (int g = 0; g < Cell::kGates; ++g) place_.store_units(to + g * hidden, d_gates_[g]);
    if constexpr (!Cell::kHasCellState) {
      T* recurrent = static_cast<T*>(args_.d_recurrent[direction_]) +
                     multiply_wide(place_.line(time, tile), Cell::kGates * hidden, place_.unit());
#pragma unroll
      for (int g = 0; g < Cell::kGates; ++g) {
        place_.store_units(recurrent + g * hidden, d_recurrent_[g]);
      }
    }
  }

  /// Past the end of all rows of a tile there are no gradients of gates; writes those of the
  /// initial state.
  __device__ void finish(int tile, int steps) {
#pragma unroll
    for (int g = 0; g < Cell::kGates; ++g) d_gates_[g] = d_recurrent_[g] = {};
    for (int t = steps; t < args_.extent.time; ++t) {
      write(tile, t);
      if constexpr (kWritesScaled) clear_scaled(tile, t);
    }
    const State& state = states_[tile];
    const std::int64_t at = place_.at(direction_, tile);
#pragma unroll
    for (int u = 0; u < kCells; ++u) {
      if (!place_.has(tile, u)) continue;
      if (args_.dh0) store(static_cast<T*>(args_.dh0) + at + u, state.dh[u]);
      if (Cell::kHasCellState && args_.dc0) args_.dc0[at + u] = state.dc[u];
    }
  }

 private:
  using State = BackwardState;

  /// Where there are no gradients.
  __device__ void clear_scaled(int tile, int time) const {
    if (args_.d_scaled == nullptr || !place_.has_row(tile) || !place_.has_unit(0)) return;
    // The rows have an even number of units.
    auto* to =
        reinterpret_cast<std::uint32_t*>(static_cast<typename Arithmetic::Factor*>(args_.d_scaled) +
                                         place_.template gate_at<Cell::kGates>(time, tile));
#pragma unroll
    for (int g = 0; g < Cell::kGates; ++g) to[g * args_.extent.hidden / 2] = 0;
    if (place_.unit() == 0) args_.row_scales[place_.line(time, tile)] = 0;
  }

  __device__ void lay_down(const Item& item) const {
    if (!place_.has_line()) return;
    const int place = place_.tile_place();
    float largest = 0;
#pragma unroll
    for (int g = 0; g < Cell::kGates; ++g) {
      const auto& d = handed_on()[g].values;
      largest = fmaxf(largest, fmaxf(fabsf(d[0]), fabsf(d[1])));
    }
#pragma unroll
    for (int distance = 4; distance < 32; distance *= 2) {
      largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, distance));
    }
    if (place_.lane() < 4) exponents_.tell(item.number, item.tile, place, largest);
#pragma unroll
    for (int g = 0; g < Cell::kGates; ++g) {
      const auto& d = handed_on()[g].values;
      *reinterpret_cast<float2*>(scaled_.at(item.tile, g, place, place_.lane() / 4 * 2)) =
          make_float2(d[0], d[1]);
    }
  }

  /// Gate gradients as the recurrent product takes them.
  __device__ const Pair<T> (&handed_on() const)[Cell::kGates] {
    return Cell::kHasCellState ? d_gates_ : d_recurrent_;
  }

  struct Factors {
    float values[4];            ///< of the gates after activation
    float gates[Cell::kGates];  ///< of dh or dc, in their gradients
    float dc_of_dh = 0, dy;
  };

  const LayerBackward& args_;
  const CellPlace<kEven>& place_;
  const int direction_;
  const StateMemory<State> states_;
  const ScaledValues& scaled_;
  const BackwardInputs<T> inputs_;
  const RowExponents exponents_;
  float unscale_weights_ = 1;
  bool active_ = false;
  Factors factors_[kCells];
  Pair<T> d_gates_[Cell::kGates], d_recurrent_[Cell::kGates];
};

}  // namespace sluice::kernels::recurrent::cuda::wide
