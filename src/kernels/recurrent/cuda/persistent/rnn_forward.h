#pragma once

#include "kernels/recurrent/cuda/persistent/forward_kernel.h"
#include "kernels/recurrent/cuda/persistent/rnn_arguments.h"
#include "kernels/recurrent/cuda/persistent/rnn_units.h"
#include "kernels/recurrent/cuda/persistent/shared_vectors.h"

/// ForwardCell of plain RNNs. Backward needs no more than h, which it finds in the arrays of
/// states.
namespace sluice::kernels::recurrent::cuda::persistent {

template <typename Cell, typename T, int kTiles, int kStepsAhead>
class RnnForward : public OwnedRows<kTiles> {
  using Rows = OwnedRows<kTiles>;
  static constexpr int kEach = Cell::kEach;
  static_assert(kEach == UnitsInRow::kMost);

 public:
  using Rows::for_rows, Rows::has_row, Rows::move_to;
  static constexpr int kRowStep = 8;
  static constexpr int kAhead = kStepsAhead;  ///< whose input products are on their way or there
  static constexpr int kSharedBytes = kAhead * kTiles * kThreads * 16;

  /// `first` is the first step's place among the input products.
  __device__ RnnForward(const RnnForwardArgs& args, const Share& share, int rank,
                        const Owner& owner, std::uint32_t inputs, int first)
      : Rows(args.extent, share, owner, (rank * kUnits + owner.unit) * kEach),
        args_(args),
        units_(unit_, hidden_),
        inputs_(inputs + threadIdx.x * 16),
        copies_four_(units_.together()),
        relu_(args.relu),
        training_(args.h_states[0] != nullptr) {
    const Extent& extent = args.extent;
    const int sign = share.direction == 1 ? -1 : 1, column = share.direction * hidden_ + unit_;
    units_.align(static_cast<const T*>(args.h0));
    units_.align(static_cast<const T*>(args.y));
    units_.align(static_cast<const T*>(args.hn));
    input_ =
        args.input + (first * extent.rows + global_row(0)) * extent.directions * hidden_ + column;
    place_step_ = sign * extent.rows * hidden_;
    y_offset_ = share.direction * hidden_ - (extent.directions - 1) * unit_;
#pragma unroll
    for (int u = 0; u < kEach; ++u) bias_[u] = u < units_.count() ? args.bias[column + u] : 0;
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
#pragma unroll
      for (int u = 0; u < kEach; ++u) h_[n][u] = x_[n][u] = 0;
      lengths_[n] = 0;
      if (!mine(n)) continue;
      lengths_[n] = length_of(n);
      if (args.h0) units_.read(static_cast<const T*>(args.h0) + state_at(n)).unpack(h_[n]);
    }
    // What isn't read stays zero.
    for (int i = 0; i < kSharedBytes; i += kThreads * 16) {
#pragma unroll
      for (int u = 0; u < kEach; ++u) store_shared(inputs_ + i + u * 4, 0);
    }
  }

  /// Begins to read the input products of the next step that has not been asked for, to be used
  /// `kAhead - 1` steps later. Every step has a call, though there may be nothing to read.
  __device__ void read_ahead(bool exists) {
    if (exists) {
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
        if (!mine(n)) continue;
        const float* from = input_ + n * kRowStep * args_.extent.directions * hidden_;
        const std::uint32_t to = inputs_ + read_to_ + n * kThreads * 16;
        if (copies_four_) {
          copy_four_ahead(to, from);
        } else {
          for (int u = 0; u < units_.count(); ++u) copy_ahead(to + u * 4, from + u);
        }
      }
      input_ += place_step_ * args_.extent.directions;
    }
    close_copies();
    read_to_ = next_slot(read_to_);
  }

  /// Waits for the input products of this step, of which the next have not been asked for yet.
  __device__ void receive() {
    wait_for_copies<kAhead - 2>();
    for_rows([&](int n) {
      const float4 x = load_four(inputs_ + read_from_ + n * kThreads * 16);
      x_[n][0] = x.x + bias_[0], x_[n][1] = x.y + bias_[1];
      x_[n][2] = x.z + bias_[2], x_[n][3] = x.w + bias_[3];
    });
    read_from_ = next_slot(read_from_);
  }

  /// Evaluates the cell. There is no branch between units, so that they run interleaved.
  __device__ void step(const float (&products)[kTiles][kEach]) {
    if (relu_) {
      activate<typename Cell::Relu>(products);
    } else {
      activate<typename Cell::Tanh>(products);
    }
  }

  /// h of a unit in the owner's n-th row.
  __device__ float h(int n, int unit) const { return h_[n][unit]; }

  /// Writes what the step has come to, and goes on to the next step's time.
  __device__ void write() {
    write_outputs();
    if (training_) write_state(place_step_ > 0 ? place_ + place_step_ : place_);
    place_ += place_step_;
    time_ += share_.direction == 1 ? -1 : 1;
  }

  /// Writes the states that lie before the first step.
  __device__ void write_initial_state(int steps, bool reverse) {
    if (!training_) return;
    const int last = reverse ? args_.extent.time : 0;
    for (int row = reverse ? steps : 0; row <= last; ++row) {
      move_to(row);
      write_state(place_);
    }
  }

  /// Writes the outputs beyond the longest row, and the states behind the last step.
  __device__ void fill_rest(int from, bool reverse) {
    for (int t = from; t < args_.extent.end; ++t) {
      move_to(t);
      write_outputs();
      if (training_ && !reverse) write_state(place_ + place_step_);
    }
  }

  __device__ void write_last_state() const {
    if (args_.hn == nullptr) return;
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      if (mine(n)) units_.write(static_cast<T*>(args_.hn) + state_at(n), h_[n]);
    }
  }

 private:
  static constexpr int kSlotBytes = kSharedBytes / kAhead;

  __device__ static std::uint32_t next_slot(std::uint32_t slot) {
    return slot + kSlotBytes == kSharedBytes ? 0 : slot + kSlotBytes;
  }
  __device__ bool mine(int n) const { return units_.count() > 0 && has_row(n); }

  /// Later steps see h as it is stored.
  template <typename Activation>
  __device__ void activate(const float (&products)[kTiles][kEach]) {
    for_rows([&](int n) {
      const bool active = time_ < lengths_[n];
#pragma unroll
      for (int u = 0; u < kEach; ++u) {
        const float h = as_stored<T>(Activation::value(x_[n][u] + products[n][u]));
        h_[n][u] = active ? h : h_[n][u];
      }
    });
  }

  /// Past a row's end zero.
  __device__ void write_outputs() const {
    const int directions = args_.extent.directions;
    T* y = static_cast<T*>(args_.y) + (directions * place_ + y_offset_);
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      if (!mine(n)) continue;
      float values[kEach];
#pragma unroll
      for (int u = 0; u < kEach; ++u) values[u] = time_ < lengths_[n] ? h_[n][u] : 0.0f;
      units_.write(y + n * kRowStep * directions * hidden_, values);
    }
  }

  /// Writes the state into the array of states that backward reads.
  __device__ void write_state(int place) const {
    T* h = static_cast<T*>(args_.h_states[share_.direction]) + place;
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      if (mine(n)) units_.write(h + n * kRowStep * hidden_, h_[n]);
    }
  }

  using Rows::global_row, Rows::length_of, Rows::state_at;
  using Rows::share_, Rows::hidden_, Rows::unit_, Rows::time_, Rows::place_;

  const LayerForward& args_;
  UnitsInRow units_;
  const std::uint32_t inputs_;  ///< where the owner reads them
  const bool copies_four_;      ///< of them at once
  const bool relu_, training_;
  std::uint32_t read_to_ = 0, read_from_ = 0;
  const float* input_;
  int place_step_;
  int y_offset_;  ///< what y's index is more than `directions` times place_
  int lengths_[kTiles];
  float bias_[kEach], h_[kTiles][kEach], x_[kTiles][kEach];
};

template <typename Math, typename T, int kBlocks, int kTiles, int kStepsAhead, int kBlockUnits>
struct ForwardStateOf<RnnForwardArgs, RnnUnits<Math>, T, kBlocks, kTiles, kStepsAhead,
                      kBlockUnits> {
  using type = RnnForward<RnnUnits<Math>, T, kTiles, kStepsAhead>;
};

}  // namespace sluice::kernels::recurrent::cuda::persistent
