#pragma once

#include "kernels/recurrent/cuda/persistent/backward_extras.h"
#include "kernels/recurrent/cuda/persistent/row_sums.h"
#include "kernels/recurrent/cuda/persistent/unit_gains.h"

/// BackwardCell of cells with layer norm beside what BackwardCellWithExtras has but peepholes.
///
/// Two norms follow each other in a step, but what the second one's sums take of the first one's
/// means they take times sums that don't depend on them: so all sums of a row meet at once.
namespace sluice::kernels::recurrent::cuda::persistent {

template <typename Cell, typename T, int kBlocks, int kTiles>
class BackwardCellWithNorm : public BackwardCellWithExtras<Cell, T, kTiles> {
  using Base = BackwardCellWithExtras<Cell, T, kTiles>;
  using Sums = RowSums<kBlocks, kTiles>;

 public:
  static constexpr int kSharedBytes = Sums::kBytes + UnitGains::kBytes;
  static constexpr int kAside = kBlocks == 16 && kTiles == 2 ? 8 : 0;

  __device__ BackwardCellWithNorm(const LayerBackwardWithNorm& args, const Share& share, int rank,
                                  const Owner& owner, int end, std::uint32_t memory)
      : Base(args, share, rank, owner, end, memory),
        norm_(args),
        sums_(memory, rank, owner, share.rows),
        inverse_units_(1.0f / static_cast<float>(this->hidden_)),
        gains_(memory + Sums::kBytes, args, share.direction, this->unit_, this->exists_) {}

  __device__ void read(int turns) {
    Base::read(turns);
    const int time = this->time_ + turns * (this->reversed() ? 1 : -1);
    const int d = this->share_.direction;
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      if (!this->mine(n) || time >= this->lengths_[n]) continue;
      const int place = this->row_at(time, n);
      next_norm_[n].hh = static_cast<const Four<T>*>(norm_.norm_hh[d])[place];
      next_norm_[n].c = this->bits_of(static_cast<const T*>(norm_.norm_c[d]) + place);
      const float* inverses =
          norm_.inverses[d] + (time * this->args_.extent.rows + this->global_row(n)) * 3;
      next_norm_[n].inverse_hh = inverses[1];
      next_norm_[n].inverse_c = inverses[2];
    }
  }

  __device__ void prepare() {
    const float2 of_c = gains_.of_c();
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      this->cut_[n] = this->next_reset_[n] != 0;
      if (!this->warp_has_row(n)) continue;
      auto& multipliers = this->multipliers_[n];
      const auto& next = this->next_[n];
      norms_[n] = next_norm_[n];
      next.gates.unpack(multipliers.values);
      const float normed = this->value_of(norms_[n].c), input = fmaf(of_c.x, normed, of_c.y);
#pragma unroll
      for (int g = 0; g < 4; ++g) {
        multipliers.gates[g] =
            Cell::d_gate(g, multipliers.values, next.c_before, input, 0,
                         Cell::takes_dh(g) ? 1.0f : 0.0f, Cell::takes_dh(g) ? 0.0f : 1.0f);
      }
      multipliers.dc_of_dh = Cell::whole_dc(multipliers.values, input, 1.0f, 0.0f);
      multipliers.dy = this->args_.dy ? this->value_of(next.dy) : 0.0f;
    }
    this->shares_.draw(this->time_);
  }

  __device__ void step() {
    if (!this->warp_has_row(0)) return;
    Flow flows[kTiles];
    float parts[kTiles][8], sums[kTiles][8];
#pragma unroll
    for (int n = 0; n < kTiles; ++n) flows[n] = flow_into(n, parts[n]);
    sums_.find(parts, sums);
#pragma unroll
    for (int n = 0; n < kTiles; ++n) go_through(n, flows[n], sums[n]);
  }

  /// The gradient of gate g as the recurrent product takes it.
  __device__ T recurrent(int n, int g) const { return this->d_recurrent_[n][g]; }

  __device__ void write() {
    write_gates();
    const int step = this->args_.extent.rows * this->hidden_;
    this->place_ += this->reversed() ? step : -step;
    this->time_ += this->reversed() ? 1 : -1;
  }

  __device__ void clear_rest(int from) {
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      d_norm_c_[n] = T(0.0f);
      d_sums_[n] = Four<T>{};
#pragma unroll
      for (int g = 0; g < 4; ++g) this->d_recurrent_[n][g] = T(0.0f);
    }
    for (int t = from; t < this->args_.extent.end; ++t) {
      this->move_to(t);
      write_gates();
    }
  }

 private:
  /// What forward left of a step.
  struct Norms {
    Four<T> hh;
    std::uint32_t c = 0;
    float inverse_hh = 0, inverse_c = 0;
  };
  /// What flows into a step in the owner's row, before it goes through the norms.
  struct Flow {
    float d_o, h_around, c_around;
    float dc;  ///< but for what the norm's means take off it
  };

  __device__ Flow flow_into(int n, float (&parts)[8]) {
    float gain_hh[4];
    gains_.of_products(gain_hh);
    const auto& multipliers = this->multipliers_[n];
    if (this->cut_[n]) this->dh_[n] = this->dc_[n] = 0;
    Flow flow;
    const float whole = this->dh_[n] + multipliers.dy;
    flow.h_around = this->shares_.h[n] * whole;
    flow.c_around = this->shares_.c[n] * this->dc_[n];
    const float dh = whole - flow.h_around, d_normed = dh * multipliers.dc_of_dh;
    const float normed = this->value_of(norms_[n].c);
    const float through = gains_.of_c().x * d_normed * norms_[n].inverse_c;
    flow.d_o = dh * multipliers.gates[3];
    flow.dc = this->dc_[n] - flow.c_around + through;
    store(&d_norm_c_[n], this->time_ < this->lengths_[n] ? d_normed : 0.0f);
    float norm_hh[4];
    norms_[n].hh.unpack(norm_hh);
    // What the two sums of the product's norm take of dc, and of the gate that doesn't depend on
    // it.
    float of_dc[2] = {};
#pragma unroll
    for (int g = 0; g < 3; ++g) {
      const float weight = gain_hh[g] * multipliers.gates[g];
      of_dc[0] += weight;
      of_dc[1] = fmaf(weight, norm_hh[g], of_dc[1]);
    }
    const float of_o = gain_hh[3] * flow.d_o;
    parts[0] = through;
    parts[1] = through * normed;
    parts[2] = fmaf(of_dc[0], flow.dc, of_o);
    parts[3] = fmaf(of_dc[1], flow.dc, of_o * norm_hh[3]);
    parts[4] = of_dc[0];
    parts[5] = of_dc[0] * normed;
    parts[6] = of_dc[1];
    parts[7] = of_dc[1] * normed;
    return flow;
  }

  __device__ void go_through(int n, const Flow& flow, const float (&sums)[8]) {
    const auto& multipliers = this->multipliers_[n];
    const bool active = this->time_ < this->lengths_[n];
    float norm_hh[4], gain_hh[4];
    gains_.of_products(gain_hh);
    norms_[n].hh.unpack(norm_hh);
    const float mean = sums[0] * inverse_units_, along = sums[1] * inverse_units_;
    const float dc = flow.dc - mean - this->value_of(norms_[n].c) * along;
    const float mean_hh = (sums[2] - mean * sums[4] - along * sums[5]) * (0.25f * inverse_units_);
    const float along_hh = (sums[3] - mean * sums[6] - along * sums[7]) * (0.25f * inverse_units_);
    float d_sums[4];
#pragma unroll
    for (int g = 0; g < 4; ++g) {
      const float d = Cell::takes_dh(g) ? flow.d_o : dc * multipliers.gates[g];
      const float recurrent =
          (gain_hh[g] * d - mean_hh - norm_hh[g] * along_hh) * norms_[n].inverse_hh;
      d_sums[g] = active ? d : 0.0f;
      store(&this->d_recurrent_[n][g], active ? recurrent : 0.0f);
    }
    d_sums_[n] = Four<T>(d_sums);
    if (!active) return;
    this->dc_[n] = Cell::dc_before(multipliers.values, dc) + flow.c_around;
    this->dh_[n] = flow.h_around;
  }

  __device__ void write_gates() const {
    const int d = this->share_.direction, hidden = this->hidden_, row_step = 8 * hidden;
    auto* sums = static_cast<Four<T>*>(norm_.d_sums[d]) + this->place_;
    T* norm_c = static_cast<T*>(norm_.d_norm_c[d]) + this->place_;
    T* recurrent =
        static_cast<T*>(this->args_.d_recurrent[d]) + (4 * this->place_ - 3 * this->unit_);
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      if (!this->mine(n)) continue;
      sums[n * row_step] = d_sums_[n];
      norm_c[n * row_step] = d_norm_c_[n];
#pragma unroll
      for (int g = 0; g < 4; ++g) {
        recurrent[4 * n * row_step + g * hidden] = this->d_recurrent_[n][g];
      }
    }
  }

  const LayerBackwardWithNorm& norm_;
  Sums sums_;
  const float inverse_units_;
  const UnitGains gains_;
  Norms next_norm_[kTiles], norms_[kTiles];
  Four<T> d_sums_[kTiles];
  T d_norm_c_[kTiles];
};

template <typename Cell, typename T, int kBlocks, int kTiles>
struct BackwardStateOf<LayerBackwardWithNorm, Cell, T, kBlocks, kTiles> {
  using type = BackwardCellWithNorm<Cell, T, kBlocks, kTiles>;
};

}  // namespace sluice::kernels::recurrent::cuda::persistent
