#pragma once

#include "kernels/recurrent/cuda/persistent/forward_kernel.h"
#include "kernels/recurrent/cuda/persistent/layer_rules.h"

/// ForwardCell of cells with more than their equations. What doesn't depend on the state is made
/// ready while that is on its way.
namespace sluice::kernels::recurrent::cuda::persistent {

template <typename Cell, typename T, int kTiles, int kStepsAhead>
class ForwardCellWithExtras : public ForwardCell<Cell, T, kTiles, kStepsAhead> {
  using Base = ForwardCell<Cell, T, kTiles, kStepsAhead>;

 public:
  __device__ ForwardCellWithExtras(const LayerForwardWithExtras& args, const Share& share, int rank,
                                   const Owner& owner, std::uint32_t inputs, int first)
      : Base(args, share, rank, owner, inputs, first),
        extras_(args),
        reverse_(share.direction == 1),
        next_time_(args.extent.begin + first),
        shares_(args.rules, share, rank, owner) {
    const float* peepholes = args.peepholes[share.direction];
#pragma unroll
    for (int k = 0; k < 3; ++k) {
      peepholes_[k] = peepholes && this->exists_ ? peepholes[k * this->hidden_ + this->unit_] : 0;
    }
    const int before = boundary_before(args.extent, reverse_);
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      multipliers_[n] = 1;
      fresh_[n] = 0;
      reset_[n] = 0;
      cut_[n] = false;
      if (!this->mine(n)) continue;
      const int row = this->global_row(n);
      multipliers_[n] = dropout_multiplier(args.rules, share.direction, row, this->unit_);
      cut_[n] = reset_at(args.rules, args.extent, row, before, this->lengths_[n]) != 0;
    }
    cut();
    read_resets();
  }

  /// Before the step.
  __device__ void receive() {
    Base::receive();
    shares_.draw(next_time_);
#pragma unroll
    for (int n = 0; n < kTiles; ++n) reset_[n] = next_reset_[n];
    next_time_ += reverse_ ? -1 : 1;
    read_resets();
  }

  __device__ void step(const float (&products)[kTiles][4]) {
    this->for_rows([&](int n) {
      const float before = this->c_[n];
      float gates[Cell::kSaved];
      if constexpr (Cell::kHasCellState) {
        this->x_[n][0] = fmaf(peepholes_[0], before, this->x_[n][0]);
        this->x_[n][1] = fmaf(peepholes_[1], before, this->x_[n][1]);
      }
      Cell::evaluate(this->x_[n], products[n], this->bias_hn_, gates);
      const float c = Cell::next_c(gates, before);
      if constexpr (Cell::kHasCellState) {
        // Of what is made only now.
        if (extras_.peepholes[0]) {
          gates[3] =
              Cell::gate(3, fmaf(peepholes_[2], c, this->x_[n][3]), products[n][3], 0, gates);
        }
      }
      this->gates_[n] = Four<T>(gates);
      T stored;
      store(&stored, mix(shares_.h[n], this->h_[n], Cell::next_h(gates, c, this->h_[n])));
      const bool active = this->time_ < this->lengths_[n];
      fresh_[n] = active ? c : before;
      this->c_[n] = active ? mix(shares_.c[n], before, c) : before;
      this->h_[n] = active ? load(&stored) : this->h_[n];
      cut_[n] = reset_[n] != 0;
    });
  }

  /// What the next product reads of the n-th row.
  __device__ float h(int n) const { return cut_[n] ? 0.0f : dropped(n); }

  __device__ void write() {
    this->write_outputs();
    write_fresh();
    cut();
    if (this->training_) write_state(this->place_after());
    this->advance();
  }

  __device__ void write_initial_state(int steps, bool reverse) {
    if (!this->training_) return;
    const int last = reverse ? this->args_.extent.time : 0;
    for (int row = reverse ? steps : 0; row <= last; ++row) {
      this->move_to(row);
      write_state(this->place_);
    }
  }

  __device__ void fill_rest(int from, bool reverse) {
#pragma unroll
    for (int n = 0; n < kTiles; ++n) fresh_[n] = this->c_[n];
    for (int t = from; t < this->args_.extent.end; ++t) {
      this->move_to(t);
      this->write_outputs();
      write_fresh();
      if (this->training_ && !reverse) write_state(this->place_after());
    }
  }

 protected:
  /// A step ahead: what nobody has read for long takes half a step to come.
  __device__ void read_resets() {
    const int boundary = boundary_behind(extras_.extent, reverse_, next_time_);
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      next_reset_[n] =
          reset_at(extras_.rules, extras_.extent, this->global_row(n), boundary, this->lengths_[n]);
    }
  }

  __device__ float dropped(int n) const { return this->h_[n] * multipliers_[n]; }

  /// The states of rows whose next step begins a sequence are zero, once the outputs are written.
  __device__ void cut() {
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      if (cut_[n]) this->h_[n] = this->c_[n] = 0;
    }
  }

  __device__ void write_fresh() const {
    if constexpr (Cell::kHasCellState) {
      float* to = extras_.c_fresh[this->share_.direction];
      if (to == nullptr) return;
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
        if (this->mine(n)) to[this->place_ + n * 8 * this->hidden_] = fresh_[n];
      }
    }
  }

  __device__ void write_state(int place) const {
    Base::write_state(place);
    T* to = static_cast<T*>(extras_.h_dropped[this->share_.direction]);
    if (to == nullptr) return;
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      if (this->mine(n)) store(to + place + n * 8 * this->hidden_, dropped(n));
    }
  }

  const LayerForwardWithExtras& extras_;
  const bool reverse_;
  int next_time_;  ///< of the step that is received next
  ZoneoutShares<Cell::kHasCellState, kTiles> shares_;
  float peepholes_[3];
  float multipliers_[kTiles];                        ///< of h in products
  float fresh_[kTiles];                              ///< c as the step has made it
  std::int32_t next_reset_[kTiles], reset_[kTiles];  ///< behind the step received, as they come
  bool cut_[kTiles];  ///< whether no state goes on from the step evaluated
};

template <typename Cell, typename T, int kBlocks, int kTiles, int kStepsAhead>
struct ForwardStateOf<LayerForwardWithExtras, Cell, T, kBlocks, kTiles, kStepsAhead, kUnits> {
  using type = ForwardCellWithExtras<Cell, T, kTiles, kStepsAhead>;
};

__device__ inline float most_of_product(const LayerForwardWithExtras& args) {
  return args.rules.recurrent_dropout.multiplier;
}

template <typename T>
__device__ void as_product_reads(T (&values)[8], const LayerForwardWithExtras& args,
                                 const Share& share, int row, int unit) {
  const Extent& extent = args.extent;
  const int length = extent.lengths ? extent.lengths[row] : extent.time;
  const bool reverse = share.direction == 1;
  if (reset_at(args.rules, extent, row, boundary_before(extent, reverse), length) != 0) {
#pragma unroll
    for (int i = 0; i < 8; ++i) store(values + i, 0.0f);
  }
  if (args.rules.recurrent_dropout.threshold == 0) return;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float multipliers[4];
    dropout_multipliers(multipliers, args.rules, share.direction, row, unit + half * 4);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      T& value = values[half * 4 + k];
      store(&value, load(&value) * multipliers[k]);
    }
  }
}

}  // namespace sluice::kernels::recurrent::cuda::persistent
