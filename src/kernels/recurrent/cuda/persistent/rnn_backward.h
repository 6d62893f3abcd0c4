#pragma once

#include "kernels/recurrent/cuda/persistent/backward_kernel.h"
#include "kernels/recurrent/cuda/persistent/rnn_arguments.h"
#include "kernels/recurrent/cuda/persistent/rnn_units.h"

/// BackwardCell of plain RNNs. A thread's units stand where others' gates do.
namespace sluice::kernels::recurrent::cuda::persistent {

template <typename Cell, typename T, int kBlocks, int kTiles>
class RnnBackward : public OwnedRows<kTiles> {
  using Rows = OwnedRows<kTiles>;
  static constexpr int kEach = Cell::kEach;

 public:
  using Rows::has_row, Rows::warp_has_row, Rows::reversed, Rows::move_to;
  static constexpr int kSharedBytes = 0;
  /// Of eight blocks' 64 fragments 36 find a place in registers.
  static constexpr int kAside = kBlocks == 8 ? 28 : 0;

  /// `end` is the time behind the last step of the piece.
  __device__ RnnBackward(const RnnBackwardArgs& args, const Share& share, int rank,
                         const Owner& owner, int /*end*/, std::uint32_t /*memory*/)
      : Rows(args.extent, share, owner, (rank * kUnits + owner.unit) * kEach),
        args_(args),
        units_(unit_, hidden_) {
    const Extent& extent = args.extent;
    dy_offset_ = share.direction * hidden_ - (extent.directions - 1) * unit_;
    units_.align(static_cast<const T*>(args.dy));
    units_.align(static_cast<const T*>(args.dhn));
    units_.align(static_cast<const T*>(args.dh0));
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
#pragma unroll
      for (int u = 0; u < kEach; ++u) dh_[n][u] = slopes_[n][u] = dy_[n][u] = 0;
      lengths_[n] = 0;
      if (!mine(n)) continue;
      lengths_[n] = length_of(n);
      if (args.dhn) units_.read(static_cast<const T*>(args.dhn) + state_at(n)).unpack(dh_[n]);
      if (args.dh_after) units_.read(args.dh_after + state_at(n)).unpack(dh_[n]);
    }
  }

  /// Reads what the next step needs, `turns` turns later than the time moved to: 1 but for the
  /// first.
  __device__ void read(int turns) {
    const int time = time_ + turns * (reversed() ? 1 : -1);
    const int step = args_.extent.rows * hidden_;
    const T* states = static_cast<const T*>(args_.h_states[share_.direction]);
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      if (!mine(n) || time >= lengths_[n]) continue;
      const int place = place_ + n * 8 * hidden_ + (turns == 0 ? 0 : reversed() ? step : -step);
      next_[n].h = units_.read(states + (reversed() ? place : place + step));
      if (args_.dy) {
        next_[n].dy = units_.read(static_cast<const T*>(args_.dy) +
                                  (args_.extent.directions * place + dy_offset_));
      }
    }
  }

  /// All that can be done before dh is there.
  __device__ void prepare() {
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      if (!warp_has_row(n)) continue;
      next_[n].h.unpack(slopes_[n]);
      next_[n].dy.unpack(dy_[n]);
#pragma unroll
      for (int u = 0; u < kEach; ++u) slopes_[n][u] = Cell::slope(args_.relu, slopes_[n][u]);
    }
  }

  /// Adds the recurrent product's part of dh: `part(n, unit)` in the owner's row of tile n.
  template <typename Part>
  __device__ void add(const Part& part) {
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      if (!warp_has_row(n)) continue;
#pragma unroll
      for (int u = 0; u < kEach; ++u) dh_[n][u] += part(n, u);
    }
  }

  /// The step: from the gradients of h after it to those of its sums, by which alone the h before
  /// it has any.
  __device__ void step() {
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      if (!warp_has_row(n)) continue;
      const bool active = time_ < lengths_[n];
      float d_sums[kEach];
#pragma unroll
      for (int u = 0; u < kEach; ++u) {
        d_sums[u] = active ? (dh_[n][u] + dy_[n][u]) * slopes_[n][u] : 0.0f;
        dh_[n][u] = active ? 0.0f : dh_[n][u];
        store(&d_sums_[n][u], d_sums[u]);
      }
    }
  }

  /// The gradient of a unit's sum as the product takes it.
  __device__ T recurrent(int n, int unit) const { return d_sums_[n][unit]; }

  /// Writes the step's gradients, and goes on to the next step's time.
  __device__ void write() {
    write_sums();
    const int step = args_.extent.rows * hidden_;
    place_ += reversed() ? step : -step;
    time_ += reversed() ? 1 : -1;
  }

  /// Past the end of all rows there are none.
  __device__ void clear_rest(int from) {
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
#pragma unroll
      for (int u = 0; u < kEach; ++u) store(&d_sums_[n][u], 0);
    }
    for (int t = from; t < args_.extent.end; ++t) {
      move_to(t);
      write_sums();
    }
  }

  __device__ void write_first_state() const {
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      if (!mine(n)) continue;
      if (args_.dh0) units_.write(static_cast<T*>(args_.dh0) + state_at(n), dh_[n]);
      if (args_.dh_before) units_.write(args_.dh_before + state_at(n), dh_[n]);
    }
  }

 private:
  /// As it comes, so that nothing waits for it before it is used.
  struct Read {
    Four<T> h, dy;
  };

  __device__ void write_sums() const {
    const int directions = args_.extent.directions;
    T* to = static_cast<T*>(args_.d_input) + share_.direction * hidden_ +
            (directions * place_ - (directions - 1) * unit_);
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      if (!mine(n)) continue;
      float values[kEach];
#pragma unroll
      for (int u = 0; u < kEach; ++u) values[u] = load(&d_sums_[n][u]);
      units_.write(to + n * 8 * directions * hidden_, values);
    }
  }

  __device__ bool mine(int n) const { return units_.count() > 0 && has_row(n); }

  using Rows::length_of, Rows::state_at;
  using Rows::share_, Rows::hidden_, Rows::unit_, Rows::time_, Rows::place_;

  const RnnBackwardArgs& args_;
  UnitsInRow units_;
  int lengths_[kTiles];
  int dy_offset_;  ///< what dy's index is more than `directions` times place_
  Read next_[kTiles];
  float dh_[kTiles][kEach], slopes_[kTiles][kEach], dy_[kTiles][kEach];
  T d_sums_[kTiles][kEach];
};

template <typename Math, typename T, int kBlocks, int kTiles>
struct BackwardStateOf<RnnBackwardArgs, RnnUnits<Math>, T, kBlocks, kTiles> {
  using type = RnnBackward<RnnUnits<Math>, T, kBlocks, kTiles>;
};

}  // namespace sluice::kernels::recurrent::cuda::persistent
