#pragma once

#include "kernels/recurrent/cuda/cells.h"
#include "kernels/recurrent/cuda/persistent/cluster_exchange.h"
#include "kernels/recurrent/cuda/persistent/owned_rows.h"

/// What a thread does for the unit and rows that it owns, beside the product: it keeps their state,
/// reads input products ahead, evaluates the cell and writes everything down.
namespace sluice::kernels::recurrent::cuda::persistent {

/// The owner has kTiles rows, kUnits / kBlockUnits * 8 apart.
template <typename Cell, typename T, int kTiles, int kStepsAhead = 4, int kBlockUnits = kUnits>
class ForwardCell : public OwnedRows<kTiles, 8 * kUnits / kBlockUnits> {
  using Rows = OwnedRows<kTiles, 8 * kUnits / kBlockUnits>;

 public:
  using Rows::for_rows, Rows::has_row, Rows::move_to;
  static constexpr int kRowStep = 8 * kUnits / kBlockUnits;
  /// Whether a warp has an octet of units alone, and so copies the inputs of its rows together,
  /// four units at once. The number of units is a multiple of that.
  static constexpr bool kByOctet = kBlockUnits > kUnits;
  static constexpr int kAhead = kStepsAhead;  ///< whose input products are on their way or there
  static constexpr int kInputBytes = kAhead * (kByOctet ? 4 : Cell::kGates) * kTiles * kThreads * 4;
  static constexpr int kSharedBytes = kInputBytes;  ///< of a block

  /// `first` is the first step's place among the input products.
  __device__ ForwardCell(const LayerForward& args, const Share& share, int rank, const Owner& owner,
                         std::uint32_t inputs, int first)
      : Rows(args.extent, share, owner, rank * kBlockUnits + owner.unit),
        args_(args),
        exists_(unit_ < hidden_),
        inputs_(inputs +
                (kByOctet ? owner.octet * kWarpBytes + owner.row * (128 + 32) + owner.lane / 4 * 4
                          : static_cast<int>(threadIdx.x) * 4)),
        copy_(owner, rank, hidden_, inputs) {
    const Extent& extent = args.extent;
    const int width = Cell::kGates * hidden_, column = share.direction * width + unit_;
    const int sign = share.direction == 1 ? -1 : 1;
    const int place = first * extent.rows + share.first_row;
    input_ =
        args.input + (kByOctet ? (place + copy_.row) * extent.directions * width +
                                     share.direction * width + copy_.gate * hidden_ + copy_.unit
                               : (place + owner.row) * extent.directions * width + column);
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
      lengths_[n] = length_of(n);
      const int at = state_at(n);
      if (args.h0) h_[n] = load(static_cast<const T*>(args.h0) + at);
      if (Cell::kHasCellState && args.c0) c_[n] = args.c0[at];
    }
    read_to_ = read_from_ = 0;
    // What isn't read stays zero.
    if constexpr (kByOctet) {
      for (int i = 0; i < kInputBytes; i += kThreads * 16) {
        for (int k = 0; k < 16; k += 4) store_shared(inputs + threadIdx.x * 16 + i + k, 0);
      }
      __syncwarp();
    } else {
      for (int i = 0; i < kInputBytes; i += kThreads * 4) store_shared(inputs_ + i, 0);
    }
  }

  /// Begins to read the input products of the next step that has not been asked for, to be used
  /// `kAhead - 1` steps later. Every step has a call, though there may be nothing to read.
  __device__ void read_ahead(bool exists) {
    if (exists) {
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
        const float* from =
            input_ + n * kRowStep * args_.extent.directions * Cell::kGates * hidden_;
        if constexpr (kByOctet) {
          if (copy_.exists && copy_.row + n * kRowStep < share_.rows) {
            copy_four_ahead(copy_.to + read_to_ + n * kThreads * 16, from);
          }
        } else {
          if (!mine(n)) continue;
#pragma unroll
          for (int g = 0; g < Cell::kGates; ++g) {
            copy_ahead(inputs_ + read_to_ + (n * Cell::kGates + g) * kThreads * 4,
                       from + g * hidden_);
          }
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
    if constexpr (kByOctet) __syncwarp();
    for_rows([&](int n) {
#pragma unroll
      for (int g = 0; g < Cell::kGates; ++g) {
        const std::uint32_t from = kByOctet ? (inputs_ ^ g * 32) + n * kThreads * 16
                                            : inputs_ + (n * Cell::kGates + g) * kThreads * 4;
        x_[n][g] = load_shared(from + read_from_) + bias_[g];
      }
    });
    read_from_ = read_from_ + kSlotBytes == kInputBytes ? 0 : read_from_ + kSlotBytes;
  }

  /// Evaluates the cell.
  __device__ void step(const float (&products)[kTiles][4]) {
    for_rows([&](int n) {
      float gates[Cell::kSaved];
      Cell::evaluate(x_[n], products[n], bias_hn_, gates);
      gates_[n] = Four<T>(gates);
      const float c = Cell::next_c(gates, c_[n]);
      // Later steps see h as it is stored.
      const float h = as_stored<T>(Cell::next_h(gates, c, h_[n]));
      c_[n] = active(n) ? c : c_[n];
      h_[n] = active(n) ? h : h_[n];
    });
  }

  /// h of the owner's n-th row.
  __device__ float h(int n) const { return h_[n]; }

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
  static constexpr int kSlotBytes = kInputBytes / kAhead;
  /// Inputs of a warp's octet lie as [row in four][gate][unit], in gates' places that differ from
  /// row to row: what a warp reads of a gate is in 32 banks.
  static constexpr int kWarpBytes = 4 * 4 * 8 * 4;

  /// What a lane copies of that: four units of a gate and row.
  struct Copy {
    int row, gate, unit;
    bool exists;  ///< of the layer
    std::uint32_t to;

    __device__ Copy(const Owner& owner, int rank, int hidden, std::uint32_t inputs)
        : row(owner.lane / 8),
          gate(owner.lane / 2 % 4),
          unit(rank * kBlockUnits + owner.octet * 8 + owner.lane % 2 * 4),
          exists(gate < Cell::kGates && unit < hidden),
          to(inputs + owner.octet * kWarpBytes + row * 128 + (gate ^ row) * 32 +
             owner.lane % 2 * 16) {}
  };

  __device__ bool mine(int n) const { return exists_ && has_row(n); }
  __device__ bool active(int n) const { return time_ < lengths_[n]; }

  /// Of the state after the step, in the arrays of states.
  __device__ int place_after() const { return place_step_ > 0 ? place_ + place_step_ : place_; }
  __device__ void advance() {
    place_ += place_step_;
    time_ += share_.direction == 1 ? -1 : 1;
  }

  /// Past a row's end zero.
  __device__ void write_outputs() const {
    const int directions = args_.extent.directions, row_step = kRowStep * hidden_;
    // Each kind for all rows, so that no store is in a branch of its own.
    T* y = static_cast<T*>(args_.y) + (directions * place_ + y_offset_);
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      if (mine(n)) store(y + n * directions * row_step, active(n) ? h_[n] : 0.0f);
    }
    if (Cell::kHasCellState && args_.c_sequence) {
      const int before = share_.direction * args_.extent.time * args_.extent.rows * hidden_;
      float* c = args_.c_sequence + (before + place_);
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
        if (mine(n)) c[n * row_step] = active(n) ? c_[n] : 0.0f;
      }
    }
    if (!training_) return;
    auto* saved = static_cast<Four<T>*>(args_.saved[share_.direction]) + place_;
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      if (mine(n) && active(n)) saved[n * row_step] = gates_[n];
    }
  }

  /// Writes the state into the arrays of states that backward reads.
  __device__ void write_state(int place) const {
    const int row_step = kRowStep * hidden_;
    T* h = static_cast<T*>(args_.h_states[share_.direction]) + place;
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      if (mine(n)) store(h + n * row_step, h_[n]);
    }
    if constexpr (Cell::kHasCellState) {
      float* c = args_.c_states[share_.direction] + place;
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
        if (mine(n)) c[n * row_step] = c_[n];
      }
    }
  }

  using Rows::global_row, Rows::length_of, Rows::state_at;
  using Rows::share_, Rows::hidden_, Rows::unit_, Rows::time_, Rows::place_;

  const LayerForward& args_;
  const bool exists_;
  const std::uint32_t inputs_;  ///< where the owner reads them
  const Copy copy_;
  std::uint32_t read_to_, read_from_;
  const float* input_;
  int input_step_, place_step_;
  bool training_;
  int y_offset_;  ///< what y's index is more than `directions` times place_
  float bias_[Cell::kGates], bias_hn_ = 0;
  int lengths_[kTiles];
  float h_[kTiles], c_[kTiles], x_[kTiles][Cell::kGates];
  Four<T> gates_[kTiles];  ///< as they are stored
};

}  // namespace sluice::kernels::recurrent::cuda::persistent
