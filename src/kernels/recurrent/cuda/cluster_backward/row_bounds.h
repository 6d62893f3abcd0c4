#pragma once

#include "kernels/recurrent/cuda/cluster_backward/block.h"
#include "kernels/recurrent/cuda/persistent/arithmetic.h"

/// Gate gradients of TF32 are multiplied as scaled float16, each row of a turn by a power of two of
/// its own, on which all blocks of the cluster agree before they know the gradients: by a bound.
///
/// Let dh be the gradient of a state, dc' that of its cell state from later steps, c that cell
/// state; dc = dc' + dh o (1 - tanh^2 c). No gradient of a gate is larger than dc or dh, but for
/// the forget gate's, dc c_before f (1 - f): as |c_before f| is at most |c| + 1, that is at most
/// (|c| + 1) |dc|. As (|c| + 1) (1 - tanh^2 c) < 1.25, none is larger than
///
///     (|c| + 1) |dc'| + 1.25 |dh|.
///
/// |dh| is at most |dy|, with the last state's gradient in a row's first turn, and the norm of the
/// weights times the largest gate gradient of the turn before. So each cell tells, when the turn
/// before has been evaluated, how far it reaches: (|c| + 1) |dc'| and 1.25 times the norm times its
/// largest gate gradient. Twice the largest of these sums in a block bounds the sum of both terms'
/// largest; with 1.25 |dy| it goes to all blocks, which add up what came of each.
///
/// Such bounds are loose by nine to twelve bits of the 29 within which float16 has all its digits
/// (random weights, 384 units).
namespace sluice::kernels::recurrent::cuda::cluster_backward {

inline constexpr float kDhShare = 1.25f;

/// Of a row's cells the largest counts. `reaches`: of a turn.
__device__ inline void tell_reach(std::uint32_t reaches, int row, float reach) {
  // Of numbers that aren't negative the bits are in the same order.
  asm volatile("red.shared.max.u32 [%0], %1;" ::"r"(reaches + row * 4), "r"(__float_as_uint(reach))
               : "memory");
}
/// Takes the largest for the row, and leaves zero.
__device__ inline float take_reach(std::uint32_t reaches, int row) {
  std::uint32_t reach;
  asm volatile("atom.shared.exch.b32 %0, [%1], 0;"
               : "=r"(reach)
               : "r"(reaches + row * 4)
               : "memory");
  return __uint_as_float(reach);
}

/// The scale of a row for a turn, for whose bounds the caller has waited; the same in all blocks.
template <typename Memory, typename Shape>
__device__ persistent::Scale scale_of_row(std::uint32_t shared, int turn, int row) {
  const std::uint32_t from =
      shared + Memory::kBounds + turn % 2 * Memory::kTurnBoundBytes + row * 4;
  float all = 0;
#pragma unroll
  for (int i = 0; i < Shape::kBlocks; ++i) {
    float bound;
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(bound) : "r"(from + i * Memory::kBoundBytes));
    all += bound;
  }
  return persistent::Scale(all);
}

/// Of a power of two.
__device__ inline float reciprocal_of_power(float power) {
  constexpr std::uint32_t kTwiceBias = 254u << 23;
  return __uint_as_float(kTwiceBias - __float_as_uint(power));
}

/// Half of a cluster's rows, whose bounds a warp tells the others: lane i has that of the i-th.
/// What comes from above is read one chunk of work ahead, some rows at a time, a lane four units of
/// each.
template <typename Shape, typename Memory>
class RowBounds {
 public:
  static constexpr int kHalf = kRows / kSumWarps;

  __device__ RowBounds(const LaunchArgs& launch, const Part& part, int steps, std::uint32_t shared,
                       const int* lengths, int half)
      : launch_(launch),
        part_(part),
        steps_(steps),
        shared_(shared),
        first_(half * kHalf),
        length_(lane() < kHalf ? lengths[half * kHalf + lane()] : 0) {}

  /// Begins to read for a turn, if there is such a one, some of the rows.
  __device__ void read(int chunk, int turn) {
    const std::uint32_t active = __ballot_sync(~0u, time_of(turn) < length_) * (turn < steps_);
    const bool has_units = lane() < Shape::kUnits / 4 && unit() < launch_.layer.extent.hidden;
    const auto* from = static_cast<const float*>(launch_.layer.dy);
    if (from) from += element(chunk * kAhead, time_of(turn));
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      dy_[i] = make_float4(0, 0, 0, 0);
      const bool reads = from && has_units && (active >> (chunk * kAhead + i) & 1) != 0;
      if (reads) dy_[i] = *reinterpret_cast<const float4*>(from + i * launch_.layer.extent.hidden);
    }
  }
  /// Takes what was read, for the lane's row.
  __device__ void take(int chunk) {
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const float largest =
          fmaxf(fmaxf(fabsf(dy_[i].x), fabsf(dy_[i].y)), fmaxf(fabsf(dy_[i].z), fabsf(dy_[i].w)));
      const float of_row = largest_of_warp(largest);
      if (lane() == chunk * kAhead + i) from_above_ = of_row;
    }
  }

  /// Tells all blocks the bounds of a turn.
  __device__ void tell(int turn) {
    add_last_states(turn);
    if (lane() >= kHalf) return;
    const int row = first_ + lane();
    const float reach =
        take_reach(shared_ + Memory::kReaches + turn % 2 * Memory::kBoundBytes, row);
    const float bound = fmaf(kDhShare, from_above_, 2 * reach);
    const std::uint32_t to = shared_ + Memory::kBounds + turn % 2 * Memory::kTurnBoundBytes +
                             part_.block * Memory::kBoundBytes + row * 4;
    const std::uint32_t full = Barriers<Shape>{shared_ + Memory::kBarriers}.bounds_full(turn);
#pragma unroll
    for (std::uint32_t block = 0; block < Shape::kBlocks; ++block) {
      asm volatile(
          "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(
              address_in(block, to)),
          "r"(__float_as_uint(bound)), "r"(address_in(block, full))
          : "memory");
    }
  }

 private:
  /// Rows that are read at a time.
  static constexpr int kAhead = (kHalf + Shape::kChunks - 1) / Shape::kChunks;

  __device__ static int lane() { return static_cast<int>(threadIdx.x) % 32; }
  __device__ static float largest_of_warp(float value) {
    return __uint_as_float(__reduce_max_sync(~0u, __float_as_uint(value)));
  }
  __device__ int unit() const { return part_.block * Shape::kUnits + lane() * 4; }
  __device__ int time_of(int turn) const { return part_.direction == 1 ? turn : steps_ - 1 - turn; }
  /// Of the lane's units in an array [.., rows, H] of one direction.
  __device__ std::int64_t element(int row, int index) const {
    const Extent& extent = launch_.layer.extent;
    return (static_cast<std::int64_t>(index) * extent.rows + part_.first_row + first_ + row) *
               extent.hidden +
           unit();
  }

  /// Rows that have their first turn take the last state's gradient up, which may begin anywhere.
  __device__ void add_last_states(int turn) {
    const int first = part_.direction == 1 ? 0 : steps_ - length_;
    const bool begins = launch_.layer.dhn && length_ > 0 && turn == first;
    std::uint32_t rows = __ballot_sync(~0u, begins);
    while (rows != 0) {
      const int row = __ffs(static_cast<int>(rows)) - 1;
      rows &= rows - 1;
      const auto* from = static_cast<const float*>(launch_.layer.dhn) + element(row, 0);
      float largest = 0;
      for (int i = 0; i < 4 && lane() < Shape::kUnits / 4; ++i) {
        if (unit() + i < launch_.layer.extent.hidden) largest = fmaxf(largest, fabsf(from[i]));
      }
      largest = largest_of_warp(largest);
      if (lane() == row) from_above_ += largest;
    }
  }

  const LaunchArgs& launch_;
  const Part& part_;
  const int steps_;
  const std::uint32_t shared_;
  const int first_, length_;
  float from_above_ = 0;
  float4 dy_[kAhead];
};

}  // namespace sluice::kernels::recurrent::cuda::cluster_backward
