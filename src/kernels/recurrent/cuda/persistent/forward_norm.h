#pragma once

#include "kernels/recurrent/cuda/persistent/forward_extras.h"
#include "kernels/recurrent/cuda/persistent/row_moments.h"
#include "kernels/recurrent/cuda/persistent/unit_gains.h"

/// ForwardCell of cells with layer norm beside what ForwardCellWithExtras has but peepholes. The
/// sums of a row meet twice in a step: of products, and of c as the step makes it.
namespace sluice::kernels::recurrent::cuda::persistent {

template <typename Cell, typename T, int kBlocks, int kTiles, int kStepsAhead>
class ForwardCellWithNorm : public ForwardCellWithExtras<Cell, T, kTiles, kStepsAhead> {
  using Base = ForwardCellWithExtras<Cell, T, kTiles, kStepsAhead>;
  using OfProducts = RowMoments<kBlocks, kTiles, 4>;
  using OfCells = RowMoments<kBlocks, kTiles, 1>;

 public:
  static constexpr int kSharedBytes =
      Base::kSharedBytes + OfProducts::kBytes + OfCells::kBytes + UnitGains::kBytes;

  __device__ ForwardCellWithNorm(const LayerForwardWithNorm& args, const Share& share, int rank,
                                 const Owner& owner, std::uint32_t memory, int first)
      : Base(args, share, rank, owner, memory, first),
        norm_(args),
        of_products_(memory + Base::kSharedBytes, rank, owner, share.rows, args.extent.hidden),
        of_cells_(memory + Base::kSharedBytes + OfProducts::kBytes, rank, owner, share.rows,
                  args.extent.hidden),
        gains_(memory + Base::kSharedBytes + OfProducts::kBytes + OfCells::kBytes, args,
               share.direction, this->unit_, this->exists_) {}

  __device__ void step(const float (&products)[kTiles][4]) {
    if (!this->warp_has_row(0)) return;
    float2 moments[kTiles];
    of_products_.find(products, moments);
    float fresh[kTiles][1], o[kTiles], gain_hh[4];
    gains_.of_products(gain_hh);
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      float normed[4], scaled[4], gates[4];
#pragma unroll
      for (int g = 0; g < 4; ++g) {
        normed[g] = (products[n][g] - moments[n].x) * moments[n].y;
        scaled[g] = gain_hh[g] * normed[g];
      }
      Cell::evaluate(this->x_[n], scaled, 0, gates);
      norm_hh_[n] = Four<T>(normed);
      this->gates_[n] = Four<T>(gates);
      o[n] = gates[3];
      fresh[n][0] = Cell::next_c(gates, this->c_[n]);
      put_inverse(n, 1, moments[n].y);
    }
    of_cells_.find(fresh, moments);
    const float2 of_c = gains_.of_c();
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      const float normed = (fresh[n][0] - moments[n].x) * moments[n].y;
      const float gates[4]{0, 0, 0, o[n]};
      const float h = Cell::next_h(gates, fmaf(of_c.x, normed, of_c.y), 0);
      store(&norm_c_[n], normed);
      T stored;
      store(&stored, mix(this->shares_.h[n], this->h_[n], h));
      const bool active = this->time_ < this->lengths_[n];
      this->c_[n] = active ? mix(this->shares_.c[n], this->c_[n], fresh[n][0]) : this->c_[n];
      this->h_[n] = active ? load(&stored) : this->h_[n];
      this->cut_[n] = this->reset_[n] != 0;
      put_inverse(n, 2, moments[n].y);
    }
  }

  __device__ void write() {
    this->write_outputs();
    write_norms();
    this->cut();
    if (this->training_) this->write_state(this->place_after());
    this->advance();
  }

  __device__ void fill_rest(int from, bool reverse) {
    for (int t = from; t < this->args_.extent.end; ++t) {
      this->move_to(t);
      this->write_outputs();
      write_norms();
      if (this->training_ && !reverse) this->write_state(this->place_after());
    }
  }

 private:
  /// Of rows past their length, whose gradients are zero, nothing that isn't a number.
  __device__ void write_norms() const {
    if (!this->training_) return;
    const int d = this->share_.direction, row_step = 8 * this->hidden_;
    auto* hh = static_cast<Four<T>*>(norm_.norm_hh[d]) + this->place_;
    T* c = static_cast<T*>(norm_.norm_c[d]) + this->place_;
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      if (this->mine(n)) hh[n * row_step] = this->active(n) ? norm_hh_[n] : Four<T>{};
    }
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      if (this->mine(n)) c[n * row_step] = this->active(n) ? norm_c_[n] : T(0.0f);
    }
  }

  /// At once: registers have no room for it.
  __device__ void put_inverse(int n, int which, float inverse) const {
    if (this->unit_ != 0 || !this->training_ || !this->mine(n)) return;
    const int place = this->time_ * this->args_.extent.rows + this->global_row(n);
    norm_.inverses[this->share_.direction][place * 3 + which] = inverse;
  }

  const LayerForwardWithNorm& norm_;
  OfProducts of_products_;
  OfCells of_cells_;
  const UnitGains gains_;
  Four<T> norm_hh_[kTiles];  ///< as they are stored
  T norm_c_[kTiles];
};

template <typename Cell, typename T, int kBlocks, int kTiles, int kStepsAhead>
struct ForwardStateOf<LayerForwardWithNorm, Cell, T, kBlocks, kTiles, kStepsAhead, kUnits> {
  using type = ForwardCellWithNorm<Cell, T, kBlocks, kTiles, kStepsAhead>;
};

}  // namespace sluice::kernels::recurrent::cuda::persistent
