#pragma once

#include "kernels/recurrent/cuda/persistent/backward_kernel.h"
#include "kernels/recurrent/cuda/persistent/layer_rules.h"

/// BackwardCell of cells with more than their equations. A step is still linear in dh and dc, so
/// all that it multiplies them with is made ready while the product is on its way.
namespace sluice::kernels::recurrent::cuda::persistent {

template <typename Cell, typename T, int kTiles>
class BackwardCellWithExtras : public BackwardCell<Cell, T, kTiles> {
  using Base = BackwardCell<Cell, T, kTiles>;

 public:
  __device__ BackwardCellWithExtras(const LayerBackwardWithExtras& args, const Share& share,
                                    int rank, const Owner& owner, int end, std::uint32_t memory)
      : Base(args, share, rank, owner, end, memory),
        extras_(args),
        shares_(args.rules, share, rank, owner) {
    const float* peepholes = args.peepholes[share.direction];
#pragma unroll
    for (int k = 0; k < 3; ++k) {
      peepholes_[k] = peepholes && this->exists_ ? peepholes[k * this->hidden_ + this->unit_] : 0;
    }
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      of_product_[n] = 1;
      next_fresh_[n] = 0;
      next_reset_[n] = 0;
      if (!this->mine(n)) continue;
      of_product_[n] =
          dropout_multiplier(args.rules, share.direction, this->global_row(n), this->unit_);
    }
  }

  __device__ void read(int turns) {
    Base::read(turns);
    const int time = this->time_ + turns * (this->reversed() ? 1 : -1);
    const int boundary = boundary_behind(extras_.extent, this->reversed(), time);
    const float* fresh = extras_.c_fresh[this->share_.direction];
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      next_reset_[n] =
          reset_at(extras_.rules, extras_.extent, this->global_row(n), boundary, this->lengths_[n]);
      if (fresh && this->mine(n) && time < this->lengths_[n]) {
        next_fresh_[n] = fresh[this->row_at(time, n)];
      }
    }
  }

  __device__ void prepare() {
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      cut_[n] = next_reset_[n] != 0;
      if (extras_.c_fresh[0] && this->time_ < this->lengths_[n]) this->c_[n] = next_fresh_[n];
    }
    Base::prepare();
    if constexpr (Cell::kHasCellState) {
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
        if (!this->warp_has_row(n)) continue;
        auto& multipliers = this->multipliers_[n];
        const auto& gates = multipliers.gates;
        multipliers.dc_of_dh = fmaf(gates[3], peepholes_[2], multipliers.dc_of_dh);
        of_dc_[n] = Cell::dc_before(multipliers.values, 1.0f) + gates[0] * peepholes_[0] +
                    gates[1] * peepholes_[1];
      }
    }
    shares_.draw(this->time_);
  }

  template <typename Part>
  __device__ void add(const Part& part) {
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      if (this->warp_has_row(n)) this->dh_[n] = fmaf(part(n), of_product_[n], this->dh_[n]);
    }
  }

  __device__ void step() {
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      if (!this->warp_has_row(n)) continue;
      const auto& multipliers = this->multipliers_[n];
      const bool active = this->time_ < this->lengths_[n];
      if (cut_[n]) this->dh_[n] = this->dc_[n] = 0;
      const float whole = this->dh_[n] + multipliers.dy, h_around = shares_.h[n] * whole;
      const float dh = whole - h_around, c_around = shares_.c[n] * this->dc_[n];
      float dc = 0;
      if constexpr (Cell::kHasCellState) {
        dc = fmaf(dh, multipliers.dc_of_dh, this->dc_[n] - c_around);
      }
#pragma unroll
      for (int g = 0; g < Cell::kGates; ++g) {
        const float d = active ? (Cell::takes_dh(g) ? dh : dc) * multipliers.gates[g] : 0.0f;
        store(&this->d_gates_[n][g], d);
        if constexpr (!Cell::kHasCellState) {
          store(&this->d_recurrent_[n][g],
                active ? Cell::d_recurrent(g, multipliers.values, d) : 0.0f);
        }
      }
      if constexpr (Cell::kHasCellState) {
        this->dc_[n] = active ? fmaf(dc, of_dc_[n], c_around) : this->dc_[n];
      }
      this->dh_[n] = active ? Cell::dh_direct(multipliers.values, dh) + h_around : this->dh_[n];
    }
  }

  __device__ void write_first_state() {
    const int before = boundary_before(extras_.extent, this->reversed());
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      if (reset_at(extras_.rules, extras_.extent, this->global_row(n), before, this->lengths_[n]) !=
          0) {
        this->dh_[n] = this->dc_[n] = 0;
      }
    }
    Base::write_first_state();
  }

 protected:
  const LayerBackwardWithExtras& extras_;
  ZoneoutShares<Cell::kHasCellState, kTiles> shares_;
  float peepholes_[3];
  float of_product_[kTiles];  ///< what multiplies the product's part of dh
  float of_dc_[kTiles];       ///< what multiplies dc on its way to the step before
  float next_fresh_[kTiles];
  std::int32_t next_reset_[kTiles];  ///< as it comes
  bool cut_[kTiles];                 ///< whether nothing comes from the step after
};

template <typename Cell, typename T, int kBlocks, int kTiles>
struct BackwardStateOf<LayerBackwardWithExtras, Cell, T, kBlocks, kTiles> {
  using type = BackwardCellWithExtras<Cell, T, kTiles>;
};

}  // namespace sluice::kernels::recurrent::cuda::persistent
