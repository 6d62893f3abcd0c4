#pragma once

#include "kernels/recurrent/cuda/cluster_wgmma/block.h"
#include "kernels/recurrent/cuda/persistent/geometry.h"

/// The cells of a warpgroup. Of the 16 rows of the product that a warp has, row i is gate 0 (of an
/// even i) or 2 of unit i / 2, and row i + 8 gate 1 or 3: so of each eight rows of the layer two
/// lanes have all gates of two of them between them, and one exchange gives each a cell.
namespace sluice::kernels::recurrent::cuda::cluster_wgmma {

inline constexpr int kMostEights = kMostTileRows / kEight;

/// GRUs have the recurrent part of n as gate 2, and of gate 3 the input's part of n alone.
template <typename Cell>
__device__ constexpr bool has_input(int gate) {
  return Cell::kHasCellState || gate != 2;
}
/// The gate of the layer whose input is gate `g` of the product.
template <typename Cell>
__host__ __device__ constexpr int input_gate(int g) {
  return Cell::kHasCellState ? g : g == 3 ? 2 : g;
}
/// Where a gate is among the inputs of a row.
__host__ __device__ constexpr int place_of_gate(int g) { return g % 2 * 2 + g / 2; }

template <typename Cell, typename T, int kGroups>
class ForwardCells {
  using Memory = BlockMemory<kGroups>;
  using Four = persistent::Four<T>;

 public:
  __device__ ForwardCells(const LayerForward& args, const Part& part, std::byte* shared,
                          const BlockMemory<kGroups>& memory)
      : args_(args),
        shared_(shared),
        cells_(reinterpret_cast<float*>(shared + memory.cells)),
        lengths_(reinterpret_cast<const int*>(shared + memory.lengths)) {
    const int thread = static_cast<int>(threadIdx.x), lane = thread % 32;
    const int unit = thread / 32 * 4 + lane / 8, hidden = args.extent.hidden;
    odd_ = lane / 4 % 2;
    row_ = 2 * (lane % 4) + odd_;
    const int all = part.rank * Memory::kUnits + unit;
    exists_ = all < hidden;
    input_ = 2 * (lane % 4) * Memory::kInputStride + odd_ * Memory::kGateStride + unit;
    cell_ = row_ * Memory::kCellStride + unit;
    eight_ = all / 8;
    state_ = row_ * 16 + all % 8 * 2;
    saved_ = (part.first_row + row_) * hidden + all;
    saves_ = args.saved[0] != nullptr && exists_;
    direction_ = part.direction;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int gate = 2 * odd_ + i;
      bias_[i] = 0;
      if (!exists_) continue;
      bias_[i] = has_input<Cell>(gate)
                     ? args.bias[(direction_ * Cell::kGates + input_gate<Cell>(gate)) * hidden + all]
                     : args.bias_hn[direction_][all];
    }
  }

  /// What the sums begin with: inputs of a step of a tile.
  __device__ void begin_sums(float (&sums)[kMostTileRows / 2], const float* inputs,
                             int columns) const {
    const float* from = inputs + input_;
#pragma unroll
    for (int j = 0; j < kMostEights; ++j) {
      if (j * kEight >= columns) break;
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        sums[4 * j + k] = from[(j * kEight + k % 2) * Memory::kInputStride +
                               k / 2 * 2 * Memory::kGateStride] +
                          bias_[k / 2];
      }
    }
  }

  /// Evaluates the step at `time`, whose first row is the cluster's `first`-th: from the state at
  /// `before` to that at `after`, in bytes of shared memory (c in bytes behind the first c).
  struct Place {
    int first, columns, time;
    int h_before, h_after, c_before, c_after;
  };
  __device__ void step(const float (&sums)[kMostTileRows / 2], const Place& place) const {
    const int inside = eight_ * place.columns * 16 + state_;
    const std::byte* h_before = shared_ + place.h_before + inside;
    std::byte* h_after = shared_ + place.h_after + inside;
    const float* c_before = cells_ + place.c_before / 4 + cell_;
    float* c_after = cells_ + place.c_after / 4 + cell_;
    const int* lengths = lengths_ + place.first + row_;
    auto* saved = static_cast<typename Four::Bits*>(args_.saved[direction_]) + saved_ +
                  (place.time * args_.extent.rows + place.first) * args_.extent.hidden;
#pragma unroll
    for (int j = 0; j < kMostEights; ++j) {
      if (j * kEight >= place.columns) break;
      float products[4];
      exchange(sums + 4 * j, products);
      const bool active = place.time < lengths[j * kEight];
      float c = 0, h = 0;
      T old;
      if constexpr (Cell::kHasCellState) c = c_before[j * kEight * Memory::kCellStride];
      if (Cell::kReadsState || !active) {
        old = *reinterpret_cast<const T*>(h_before + j * kEight * 16);
        h = load(&old);
      }
      float gates[Cell::kSaved];
      evaluate(products, gates);
      const float next = Cell::next_c(gates, c);
      T fresh;
      store(&fresh, Cell::next_h(gates, next, h));
      *reinterpret_cast<T*>(h_after + j * kEight * 16) = active ? fresh : old;
      if constexpr (Cell::kHasCellState) {
        c_after[j * kEight * Memory::kCellStride] = active ? next : c;
      }
      if (saves_ && active) saved[j * kEight * args_.extent.hidden] = Four(gates).bits;
    }
  }

 private:
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
  std::byte* const shared_;
  float* const cells_;
  const int* const lengths_;
  bool exists_, saves_;
  int odd_, row_, direction_;
  int input_, cell_, eight_, state_, saved_;
  float bias_[2];
};

}  // namespace sluice::kernels::recurrent::cuda::cluster_wgmma
