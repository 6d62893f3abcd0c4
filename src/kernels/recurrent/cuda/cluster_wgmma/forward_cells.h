#pragma once

#include "kernels/recurrent/cuda/cluster_wgmma/block.h"
#include "kernels/recurrent/cuda/cluster_wgmma/weight_scale.h"
#include "kernels/recurrent/cuda/persistent/arithmetic.h"
#include "kernels/recurrent/cuda/persistent/geometry.h"

/// The cells of a warpgroup. Of the 16 rows of the product that a warp has, row i is gate 0 (of an
/// even i) or 2 of unit i / 2, and row i + 8 gate 1 or 3: so of each eight rows of the layer two
/// lanes have all gates of two of them between them, and one exchange gives each a cell.
namespace sluice::kernels::recurrent::cuda::cluster_wgmma {

/// How h of TF32 is scaled: it never exceeds 1, or the initial one of the cluster's rows.
template <typename Memory>
__device__ persistent::Scale scale_of_state(const std::byte* shared, const Memory& memory) {
  return persistent::Scale(fmaxf(1.0f, *reinterpret_cast<const float*>(shared + memory.largest)));
}

template <typename Cell, typename Arithmetic, typename Memory>
class ForwardCells {
  using T = typename Arithmetic::Storage;
  using Factor = typename Arithmetic::Factor;
  using Four = persistent::Four<T>;

 public:
  __device__ ForwardCells(const LayerForward& args, const Part& part, std::byte* shared,
                          const Memory& memory)
      : args_(args),
        states_(shared + memory.states),
        cells_(reinterpret_cast<float*>(shared + memory.cells)),
        plain_(memory.plain - memory.cells),
        lengths_(reinterpret_cast<const int*>(shared + memory.lengths)) {
    const int thread = static_cast<int>(threadIdx.x), lane = thread % 32;
    const int unit = thread / 32 * 4 + lane / 8, hidden = args.extent.hidden;
    odd_ = lane / 4 % 2;
    row_ = 2 * (lane % 4) + odd_;
    const int all = part.rank * Memory::kUnits + unit;
    exists_ = all < hidden;
    // GRUs have the recurrent part of n as gate 2, whose input is none, and n's input as gate 3.
    const int first_gate = Cell::kHasCellState ? 2 * odd_ : 0;
    const int second_gate = Cell::kHasCellState ? first_gate + 1 : 1 + odd_;
    const int group = thread / 128, warp = thread / 32 % 4;
    input_ = ((group * Cell::kGates + first_gate) * kEight + 2 * (lane % 4)) * kGroupUnits +
             (warp ^ lane % 4) * 4 + lane / 8;
    second_input_ = (second_gate - first_gate) * kEight * kGroupUnits;
    has_first_ = Cell::kHasCellState || odd_ == 0;
    cell_ = row_ * Memory::kCellStride + unit;
    eight_ = all / 8;
    state_ = row_ * 16 + all % 8 * 2;
    saved_ = (part.first_row + row_) * hidden + all;
    saves_ = args.saved[0] != nullptr && exists_;
    direction_ = part.direction;
    bias_[0] = bias_[1] = 0;
    if (!exists_) return;
    const float* bias = args.bias + direction_ * Cell::kGates * hidden + all;
    bias_[0] = has_first_ ? bias[first_gate * hidden] : args.bias_hn[direction_][all];
    bias_[1] = bias[second_gate * hidden];
    if constexpr (Arithmetic::kScaled) {
      h_up_ = scale_of_state(shared, memory).up;
      up_ = h_up_ * scale_of_weights(args.largest[direction_]).up;
      down_ = scale_of_state(shared, memory).down * scale_of_weights(args.largest[direction_]).down;
      bias_[0] *= up_;
      bias_[1] *= up_;
    }
  }

  /// What the sums begin with: inputs of a step of a tile.
  __device__ void begin_sums(float (&sums)[kMostTileRows / 2], const float* inputs,
                             int columns) const {
    if (columns == kMostTileRows) {
      begin_tile<kMostTileRows / kEight>(sums, inputs);
    } else {
      begin_tile<kFewestTileRows / kEight>(sums, inputs);
    }
  }

  /// Where a step at `time` is: a tile whose first row is the cluster's `first`-th; its states
  /// before and after in bytes, c's behind the first c.
  struct Place {
    int first, columns, time;
    int h_before, h_after, c_before, c_after;
  };
  /// Evaluates the step, but for what save() does.
  __device__ void step(const float (&sums)[kMostTileRows / 2], const Place& place) {
    if (place.columns == kMostTileRows) {
      step_tile<kMostTileRows / kEight>(sums, place);
    } else {
      step_tile<kFewestTileRows / kEight>(sums, place);
    }
  }

  /// Writes what backward reads of the last step.
  __device__ void save(const Place& place) const {
    if (!saves_) return;
    auto* saved = static_cast<typename Four::Bits*>(args_.saved[direction_]) +
                  ((place.time * args_.extent.rows + place.first) * args_.extent.hidden + saved_);
#pragma unroll
    for (int j = 0; j < kMostTileRows / kEight; ++j) {
      if (active_[j]) saved[j * kEight * args_.extent.hidden] = bits_[j];
    }
  }

 private:
  template <int kRows>
  __device__ void begin_tile(float* sums, const float* inputs) const {
    const float* from = inputs + input_;
#pragma unroll
    for (int j = 0; j < kRows; ++j) {
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        const float first = from[j * (Memory::kInputBytes / 4) + k * kGroupUnits];
        const float second = from[j * (Memory::kInputBytes / 4) + second_input_ + k * kGroupUnits];
        sums[4 * j + k] = fmaf(has_first_ ? first : 0.0f, up_, bias_[0]);
        sums[4 * j + 2 + k] = fmaf(second, up_, bias_[1]);
      }
    }
  }

  /// Without a branch between a thread's rows, so that they run interleaved.
  template <int kRows>
  __device__ void step_tile(const float* sums, const Place& place) {
    const int inside = eight_ * place.columns * 16 + state_;
    const std::byte* h_before = states_ + place.h_before + inside;
    std::byte* h_after = states_ + place.h_after + inside;
    const float* c_before = cells_ + place.c_before / 4 + cell_;
    float* c_after = cells_ + place.c_after / 4 + cell_;
    constexpr int kRow = kEight * Memory::kCellStride;
    const int* lengths = lengths_ + place.first + row_;
    float c[kRows];
    T h[kRows];
#pragma unroll
    for (int j = 0; j < kRows; ++j) {
      active_[j] = place.time < lengths[j * kEight];
      c[j] = Cell::kHasCellState ? c_before[j * kRow] : 0;
      if constexpr (Arithmetic::kScaled) {
        h[j] = c_before[plain_ / 4 + j * kRow];
      } else {
        h[j] = *reinterpret_cast<const T*>(h_before + j * kEight * 16);
      }
    }
#pragma unroll
    for (int j = 0; j < kRows; ++j) {
      float products[4], gates[Cell::kSaved];
      exchange(sums + 4 * j, products);
      if constexpr (Arithmetic::kScaled) {
#pragma unroll
        for (float& product : products) product *= down_;
      }
      evaluate(products, gates);
      bits_[j] = Four(gates).bits;
      const float next = Cell::next_c(gates, c[j]);
      T fresh;
      store(&fresh, Cell::next_h(gates, next, load(&h[j])));
      h[j] = active_[j] ? fresh : h[j];
      c[j] = active_[j] ? next : c[j];
    }
#pragma unroll
    for (int j = 0; j < kRows; ++j) {
      if constexpr (Arithmetic::kScaled) {
        store(reinterpret_cast<Factor*>(h_after + j * kEight * 16), h[j] * h_up_);
        c_after[plain_ / 4 + j * kRow] = h[j];
      } else {
        *reinterpret_cast<T*>(h_after + j * kEight * 16) = h[j];
      }
      if constexpr (Cell::kHasCellState) c_after[j * kRow] = c[j];
    }
#pragma unroll
    for (int j = kRows; j < kMostTileRows / kEight; ++j) active_[j] = false;
  }

  /// Lanes l and l ^ 4 have two gates each of a unit in two rows: each gets all four in one.
  __device__ void exchange(const float* sums, float (&products)[4]) const {
    const float away0 = odd_ ? sums[0] : sums[1], away1 = odd_ ? sums[2] : sums[3];
    const float mine0 = odd_ ? sums[1] : sums[0], mine1 = odd_ ? sums[3] : sums[2];
    const float other0 = __shfl_xor_sync(~0u, away0, 4), other1 = __shfl_xor_sync(~0u, away1, 4);
    products[0] = odd_ ? other0 : mine0;
    products[1] = odd_ ? other1 : mine1;
    products[2] = odd_ ? mine0 : other0;
    products[3] = odd_ ? mine1 : other1;
  }

  __device__ static void evaluate(const float (&sums)[4], float (&gates)[Cell::kSaved]) {
    // Added to what is there already.
    constexpr float kNothing = -0.0f;
    if constexpr (Cell::kHasCellState) {
      const float none[4] = {kNothing, kNothing, kNothing, kNothing};
      Cell::evaluate(sums, none, 0, gates);
    } else {
      const float x[3] = {sums[0], sums[1], sums[3]}, r[3] = {kNothing, kNothing, sums[2]};
      Cell::evaluate(x, r, kNothing, gates);
    }
  }

  const LayerForward& args_;
  std::byte* const states_;
  float* const cells_;
  const int plain_;  ///< from c to h that isn't scaled, in bytes
  const int* const lengths_;
  bool exists_, saves_;
  int odd_, row_, direction_;
  bool has_first_;
  int input_, second_input_, cell_, eight_, state_, saved_;
  float bias_[2];
  /// By which h is scaled, and its products; what takes those back.
  float h_up_ = 1, up_ = 1, down_ = 1;
  bool active_[kMostTileRows / kEight];
  typename Four::Bits bits_[kMostTileRows / kEight];
};

}  // namespace sluice::kernels::recurrent::cuda::cluster_wgmma
