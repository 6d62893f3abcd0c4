#pragma once

#include "kernels/recurrent/cuda/cells.h"
#include "kernels/recurrent/cuda/persistent/cluster_exchange.h"
#include "kernels/recurrent/cuda/persistent/geometry.h"

/// What a thread does for the unit and rows that it owns, beside the product: it keeps their state,
/// reads input products ahead, evaluates the cell and writes everything down.
namespace sluice::kernels::recurrent::cuda::persistent {

template <typename Cell, typename T, int kTiles, int kStepsAhead = 4>
class ForwardCell {
 public:
  static constexpr int kAhead = kStepsAhead;  ///< whose input products are on their way or there
  static constexpr int kInputBytes = kAhead * Cell::kGates * kTiles * kThreads * 4;

  /// `first` is the first step's place among the input products.
  __device__ ForwardCell(const LayerForward& args, const Share& share, int rank, const Owner& owner,
                         std::uint32_t inputs, int first)
      : args_(args),
        share_(share),
        owner_row_(owner.row),
        warp_row_(owner.half * 4),
        hidden_(args.extent.hidden),
        unit_(rank * kUnits + owner.unit),
        exists_(unit_ < hidden_),
        inputs_(inputs + threadIdx.x * 4) {
    const Extent& extent = args.extent;
    const int width = Cell::kGates * hidden_, column = share.direction * width + unit_;
    const int sign = share.direction == 1 ? -1 : 1;
    input_ =
        args.input + ((first * extent.rows + global_row(0)) * extent.directions * width + column);
    input_step_ = sign * width * extent.directions * extent.rows;
    place_step_ = sign * extent.rows * hidden_;
    training_ = args.saved[0] != nullptr;
    y_offset_ = share.direction * hidden_ - (extent.directions - 1) * unit_;
#pragma unroll
    for (int g = 0; g < Cell::kGates; ++g) {
      bias_[g] = exists_ ? args.bias[column + g * hidden_] : 0;
    }
    if constexpr (!Cell::kHasCellState) {
      bias_hn_ = exists_ ? args.bias_hn[share.direction][unit_] : 0;
    }
    constexpr float none[4] = {};
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      h_[n] = c_[n] = 0;
      gates_[n] = Four<T>(none);
#pragma unroll
      for (int g = 0; g < Cell::kGates; ++g) x_[n][g] = 0;
      lengths_[n] = 0;
      if (!mine(n)) continue;
      lengths_[n] = extent.lengths ? extent.lengths[global_row(n)] : extent.time;
      const int at = state_at(n);
      if (args.h0) h_[n] = load(static_cast<const T*>(args.h0) + at);
      if (Cell::kHasCellState && args.c0) c_[n] = args.c0[at];
    }
    read_to_ = read_from_ = 0;
    // What isn't read stays zero.
    for (int i = 0; i < kInputBytes; i += kThreads * 4) store_shared(inputs_ + i, 0);
  }

  /// Begins to read the input products of the next step that has not been asked for, to be used
  /// `kAhead - 1` steps later. Every step has a call, though there may be nothing to read.
  __device__ void read_ahead(bool exists) {
    if (exists) {
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
        if (!mine(n)) continue;
        const float* from = input_ + n * 8 * args_.extent.directions * Cell::kGates * hidden_;
#pragma unroll
        for (int g = 0; g < Cell::kGates; ++g) {
          copy_ahead(inputs_ + read_to_ + (n * Cell::kGates + g) * kThreads * 4,
                     from + g * hidden_);
        }
      }
      input_ += input_step_;
    }
    close_copies();
    read_to_ = read_to_ + kSlotBytes == kInputBytes ? 0 : read_to_ + kSlotBytes;
  }

  /// Waits for the input products of this step, of which the next have not been asked for yet.
  __device__ void receive() {
    wait_for_copies<kAhead - 2>();
    for_rows([&](int n) {
#pragma unroll
      for (int g = 0; g < Cell::kGates; ++g) {
        x_[n][g] =
            load_shared(inputs_ + read_from_ + (n * Cell::kGates + g) * kThreads * 4) + bias_[g];
      }
    });
    read_from_ = read_from_ + kSlotBytes == kInputBytes ? 0 : read_from_ + kSlotBytes;
  }

  /// Says at what time the next step or write is.
  __device__ void move_to(int t) {
    time_ = t;
    place_ = (t * args_.extent.rows + global_row(0)) * hidden_ + unit_;
  }

  /// Evaluates the cell.
  __device__ void step(const float (&products)[kTiles][4]) {
    for_rows([&](int n) {
      float gates[Cell::kSaved];
      Cell::evaluate(x_[n], products[n], bias_hn_, gates);
      gates_[n] = Four<T>(gates);
      const float c = Cell::next_c(gates, c_[n]);
      // Later steps see h as it is stored.
      T stored;
      store(&stored, Cell::next_h(gates, c, h_[n]));
      const bool active = time_ < lengths_[n];
      c_[n] = active ? c : c_[n];
      h_[n] = active ? load(&stored) : h_[n];
    });
  }

  /// Calls body(n) for each n of which any of the warp's rows is a row. There is no branch between
  /// them where all are, so that they run interleaved.
  template <typename Body>
  __device__ void for_rows(const Body& body) const {
    if (warp_has_row(kTiles - 1)) {
#pragma unroll
      for (int n = 0; n < kTiles; ++n) body(n);
    } else {
#pragma unroll
      for (int n = 0; n + 1 < kTiles; ++n) {
        if (warp_has_row(n)) body(n);
      }
    }
  }

  /// h of the owner's n-th row.
  __device__ float h(int n) const { return h_[n]; }
  /// Whether any of the warp's n-th rows is a row, and whether the owner's is.
  __device__ bool warp_has_row(int n) const { return warp_row_ + n * 8 < share_.rows; }
  __device__ bool has_row(int n) const { return owner_row_ + n * 8 < share_.rows; }

  /// Writes what the step has come to, and goes on to the next step's time.
  __device__ void write() {
    write_outputs();
    if (training_) write_state(place_after());
    advance();
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
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      if (!mine(n)) continue;
      if (args_.hn) store(static_cast<T*>(args_.hn) + state_at(n), h_[n]);
      if (Cell::kHasCellState && args_.cn) args_.cn[state_at(n)] = c_[n];
    }
  }

 protected:
  __device__ bool mine(int n) const { return exists_ && has_row(n); }
  __device__ int global_row(int n) const { return share_.first_row + owner_row_ + n * 8; }
  __device__ int state_at(int n) const {
    return (share_.direction * args_.extent.rows + global_row(n)) * hidden_ + unit_;
  }

  /// Of the state after the step, in the arrays of states.
  __device__ int place_after() const { return place_step_ > 0 ? place_ + place_step_ : place_; }
  __device__ void advance() {
    place_ += place_step_;
    time_ += share_.direction == 1 ? -1 : 1;
  }

  /// Past a row's end zero.
  __device__ void write_outputs() const {
    const int directions = args_.extent.directions;
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      if (!mine(n)) continue;
      const bool active = time_ < lengths_[n];
      const int place = place_ + n * 8 * hidden_;
      store(static_cast<T*>(args_.y) + (directions * place + y_offset_), active ? h_[n] : 0.0f);
      if (Cell::kHasCellState && args_.c_sequence) {
        const int before = share_.direction * args_.extent.time * args_.extent.rows * hidden_;
        args_.c_sequence[before + place] = active ? c_[n] : 0.0f;
      }
      if (active && training_) {
        static_cast<Four<T>*>(args_.saved[share_.direction])[place] = gates_[n];
      }
    }
  }

  /// Writes the state into the arrays of states that backward reads.
  __device__ void write_state(int place) const {
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      if (!mine(n)) continue;
      store(static_cast<T*>(args_.h_states[share_.direction]) + place + n * 8 * hidden_, h_[n]);
      if constexpr (Cell::kHasCellState) {
        args_.c_states[share_.direction][place + n * 8 * hidden_] = c_[n];
      }
    }
  }

  static constexpr int kSlotBytes = kInputBytes / kAhead;

  const LayerForward& args_;
  const Share& share_;
  const int owner_row_, warp_row_, hidden_, unit_;
  const bool exists_;
  const std::uint32_t inputs_;
  std::uint32_t read_to_, read_from_;
  const float* input_;
  int input_step_, place_step_;
  int place_ = 0;  ///< of the owner's first row in an array [time, rows, H]
  int time_ = 0;
  bool training_;
  int y_offset_;  ///< what y's index is more than `directions` times place_
  float bias_[Cell::kGates], bias_hn_ = 0;
  int lengths_[kTiles];
  float h_[kTiles], c_[kTiles], x_[kTiles][Cell::kGates];
  Four<T> gates_[kTiles];  ///< as they are stored
};

}  // namespace sluice::kernels::recurrent::cuda::persistent
