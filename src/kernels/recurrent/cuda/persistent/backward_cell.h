#pragma once

#include "kernels/recurrent/cuda/cells.h"
#include "kernels/recurrent/cuda/persistent/owned_rows.h"

/// What a thread does for the unit and rows that it owns, beside the product: it reads what forward
/// left one step ahead, evaluates the cell's backward and writes the gate gradients.
namespace sluice::kernels::recurrent::cuda::persistent {

template <typename Cell, typename T, int kTiles>
class BackwardCell : public OwnedRows<kTiles> {
  using Rows = OwnedRows<kTiles>;

 public:
  using Rows::has_row, Rows::warp_has_row, Rows::reversed, Rows::move_to;
  static constexpr int kSharedBytes = 0;  ///< of a block, from `memory` on
  static constexpr int kAside = 0;        ///< fragments that leave it their registers

  /// `end` is the time behind the last step of the piece.
  __device__ BackwardCell(const LayerBackward& args, const Share& share, int rank,
                          const Owner& owner, int end, std::uint32_t /*memory*/)
      : Rows(args.extent, share, owner, rank * kUnits + owner.unit),
        args_(args),
        exists_(unit_ < hidden_) {
    const Extent& extent = args.extent;
    dy_offset_ = share.direction * hidden_ - (extent.directions - 1) * unit_;
    constexpr float none[4] = {};
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      dh_[n] = dc_[n] = c_[n] = 0;
      next_[n].gates = Four<T>(none);
      lengths_[n] = 0;
      if (!mine(n)) continue;
      lengths_[n] = length_of(n);
      if (args.dhn) dh_[n] = load(static_cast<const T*>(args.dhn) + state_at(n));
      if (args.dh_after) dh_[n] = args.dh_after[state_at(n)];
      if (Cell::kHasCellState && args.dcn) dc_[n] = args.dcn[state_at(n)];
      if constexpr (Cell::kHasCellState) {
        c_[n] = args.c_states[share.direction][row_at(reversed() ? 0 : end, n)];
      }
    }
  }

  /// Reads what the next step needs, `turns` turns later than the time moved to: 1 but for the
  /// first.
  __device__ void read(int turns) {
    const int d = share_.direction, time = time_ + turns * (reversed() ? 1 : -1);
    const int step = args_.extent.rows * hidden_;
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      if (!mine(n) || time >= lengths_[n]) continue;
      const int place = place_ + n * 8 * hidden_ + (turns == 0 ? 0 : reversed() ? step : -step);
      next_[n].gates = static_cast<const Four<T>*>(args_.saved[d])[place];
      const int before = reversed() ? place + step : place;
      if constexpr (Cell::kHasCellState) {
        next_[n].c_before = args_.c_states[d][before];
      } else {
        next_[n].h_before = bits_of(static_cast<const T*>(args_.h_states[d]) + before);
      }
      if (args_.dy) {
        next_[n].dy = bits_of(static_cast<const T*>(args_.dy) +
                              (args_.extent.directions * place + dy_offset_));
      }
    }
  }

  /// Makes of what was read what the step will multiply dh and dc with: all that can be done
  /// before dh is there.
  __device__ void prepare() {
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      if (!warp_has_row(n)) continue;
      Multipliers& multipliers = multipliers_[n];
      float c_before = 0, h_before = 0;
      next_[n].gates.unpack(multipliers.values);
      if constexpr (Cell::kHasCellState) {
        c_before = next_[n].c_before;
        multipliers.dc_of_dh = Cell::whole_dc(multipliers.values, c_[n], 1.0f, 0.0f);
      } else {
        h_before = value_of(next_[n].h_before);
      }
#pragma unroll
      for (int g = 0; g < Cell::kGates; ++g) {
        multipliers.gates[g] =
            Cell::takes_dh(g)
                ? Cell::d_gate(g, multipliers.values, c_before, c_[n], h_before, 1.0f, 0.0f)
                : Cell::d_gate(g, multipliers.values, c_before, c_[n], h_before, 0.0f, 1.0f);
      }
      multipliers.dy = args_.dy ? value_of(next_[n].dy) : 0.0f;
      if (time_ < lengths_[n]) c_[n] = c_before;
    }
  }

  /// Adds the recurrent product's part of dh: `part(n)` in the owner's row of tile n.
  template <typename Part>
  __device__ void add(const Part& part) {
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      if (warp_has_row(n)) dh_[n] += part(n);
    }
  }

  /// The step: from the gradients of the state after it to those of the state before it (of h only
  /// what doesn't take the product) and the gate gradients.
  __device__ void step() {
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      if (!warp_has_row(n)) continue;
      const Multipliers& multipliers = multipliers_[n];
      const bool active = time_ < lengths_[n];
      const float dh = dh_[n] + multipliers.dy;
      float dc = 0;
      if constexpr (Cell::kHasCellState) dc = fmaf(dh, multipliers.dc_of_dh, dc_[n]);
#pragma unroll
      for (int g = 0; g < Cell::kGates; ++g) {
        const float d = active ? (Cell::takes_dh(g) ? dh : dc) * multipliers.gates[g] : 0.0f;
        store(&d_gates_[n][g], d);
        if constexpr (!Cell::kHasCellState) {
          store(&d_recurrent_[n][g], active ? Cell::d_recurrent(g, multipliers.values, d) : 0.0f);
        }
      }
      if constexpr (Cell::kHasCellState) {
        dc_[n] = active ? Cell::dc_before(multipliers.values, dc) : dc_[n];
      }
      dh_[n] = active ? Cell::dh_direct(multipliers.values, dh) : dh_[n];
    }
  }

  /// The gradient of gate g as the recurrent product takes it.
  __device__ T recurrent(int n, int g) const {
    if constexpr (Cell::kHasCellState) {
      return d_gates_[n][g];
    } else {
      return d_recurrent_[n][g];
    }
  }

  /// Writes the step's gate gradients, and goes on to the next step's time.
  __device__ void write() {
    write_gates();
    const int step = args_.extent.rows * hidden_;
    place_ += reversed() ? step : -step;
    time_ += reversed() ? 1 : -1;
  }

  /// Past the end of all rows there are none.
  __device__ void clear_rest(int from) {
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
#pragma unroll
      for (int g = 0; g < Cell::kGates; ++g) {
        store(&d_gates_[n][g], 0);
        if constexpr (!Cell::kHasCellState) store(&d_recurrent_[n][g], 0);
      }
    }
    for (int t = from; t < args_.extent.end; ++t) {
      move_to(t);
      write_gates();
    }
  }

  __device__ void write_first_state() const {
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      if (!mine(n)) continue;
      if (args_.dh0) store(static_cast<T*>(args_.dh0) + state_at(n), dh_[n]);
      if (args_.dh_before) args_.dh_before[state_at(n)] = dh_[n];
      if (Cell::kHasCellState && args_.dc0) args_.dc0[state_at(n)] = dc_[n];
    }
  }

 protected:
  /// What forward left of a step and what flows into it, as it comes, so that nothing waits for it
  /// before it is used.
  struct Read {
    Four<T> gates;
    float c_before = 0;
    std::uint32_t h_before = 0, dy = 0;
  };
  struct Multipliers {
    float values[4];            ///< of the gates after activation
    float gates[Cell::kGates];  ///< of dh or dc, in their gradients
    float dc_of_dh, dy;
  };

  /// As they come, so that nothing waits for them before they are used.
  using Bits = std::conditional_t<sizeof(T) == 2, std::uint16_t, std::uint32_t>;
  __device__ static std::uint32_t bits_of(const T* from) {
    return *reinterpret_cast<const Bits*>(from);
  }
  __device__ static float value_of(std::uint32_t bits) {
    const auto narrow = static_cast<Bits>(bits);
    return load(reinterpret_cast<const T*>(&narrow));
  }

  __device__ void write_gates() const {
    const int gates = Cell::kGates * args_.extent.directions;
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      if (!mine(n)) continue;
      const int place = place_ + n * 8 * hidden_;
      T* to = static_cast<T*>(args_.d_input) + share_.direction * Cell::kGates * hidden_ +
              (gates * place - (gates - 1) * unit_);
#pragma unroll
      for (int g = 0; g < Cell::kGates; ++g) to[g * hidden_] = d_gates_[n][g];
      if constexpr (!Cell::kHasCellState) {
        T* recurrent = static_cast<T*>(args_.d_recurrent[share_.direction]) +
                       (Cell::kGates * place - (Cell::kGates - 1) * unit_);
#pragma unroll
        for (int g = 0; g < Cell::kGates; ++g) recurrent[g * hidden_] = d_recurrent_[n][g];
      }
    }
  }

  __device__ bool mine(int n) const { return exists_ && has_row(n); }

  using Rows::length_of, Rows::row_at, Rows::state_at;
  using Rows::share_, Rows::hidden_, Rows::unit_, Rows::time_, Rows::place_;

  const LayerBackward& args_;
  const bool exists_;
  int lengths_[kTiles];
  float dh_[kTiles], dc_[kTiles], c_[kTiles];
  int dy_offset_;  ///< what dy's index is more than `directions` times place_
  Read next_[kTiles];
  Multipliers multipliers_[kTiles];
  T d_gates_[kTiles][Cell::kGates], d_recurrent_[kTiles][Cell::kGates];
};

}  // namespace sluice::kernels::recurrent::cuda::persistent
