#pragma once

#include "kernels/matmul/cuda/by_parts/left_rows.h"

namespace sluice::kernels::matmul::cuda::by_parts {

/// Of the 64 rows of a warpgroup, as multiply_lines leaves them.
using Sums = float[64];

/// A warpgroup that multiplies: 64 rows of a tile, whose left factor Rows reads and whose sums Sink
/// takes.
template <typename Rows, typename Sink>
class Multiplier {
 public:
  using Work = typename Rows::Work;
  using Arguments = typename Work::Arguments;

  __device__ Multiplier(const Arguments& args, const Stages& stages)
      : args_(args), stages_(stages), left_(args), sink_(args), group_(threadIdx.x / kWarpgroup) {}

  __device__ void run() {
    if (group_ == 1) give_turn();
    const int count = Work::count(args_);
    Work work(args_, blockIdx.x);
    left_.load(next_, left_.place(work), work.depth_begin);
    for (int i = blockIdx.x; i < count; i = Work::behind(i)) {
      const int following = Work::behind(i);
      const Work after(args_, following < count ? following : i);
      run(work, after);
      work = after;
    }
    if (group_ == 0) take_turn();
  }

 private:
  static constexpr int kSteps = kStageDepth / kLeftDepth;  ///< in a stage

  /// `after`: whose first numbers are on their way while sums are written.
  __device__ void run(const Work& work, const Work& after) {
    Sums sums, added;
#pragma unroll
    for (float& sum : sums) sum = 0;
    const int stages = (work.depth_end - work.depth_begin + kStageDepth - 1) / kStageDepth;
    const typename Rows::Place place = left_.place(work);
    const int steps = stages * kSteps;
#pragma unroll 1
    for (int i = 0; i < steps; ++i) {
      const int step = i % kSteps;
      if (step == 0) wait_for_phase(stages_.filled(place_.stage), place_.parity);
      LeftParts parts[kLeftProducts];
#pragma unroll
      for (int j = 0; j < kLeftProducts; ++j) parts[j] = left_.split(next_[j]);
      const bool last = i + 1 == steps;
      left_.load(next_, last ? left_.place(after) : place,
                 last ? after.depth_begin : work.depth_begin + (i + 1) * kLeftDepth);
      multiply(added, parts, stages_.at(place_.stage) + step * (kLineBytes / kSteps));
      if (step == kSteps - 1) {
        if (threadIdx.x % kWarpSize == 0) arrive(stages_.emptied(place_.stage));
        place_.advance();
      }
#pragma unroll
      for (int j = 0; j < 64; ++j) sums[j] += added[j];
    }
    sink_.write(work, place, sums);
  }

  /// Tensor cores cut off where they add, which shows in long sums (of positive terms 50 times
  /// float32's own error at a depth of 4096): so they add up 32 of the depth, the smallest terms
  /// first, and these sums are added with rounding.
  __device__ void multiply(Sums& to, const LeftParts (&left)[kLeftProducts],
                           std::uint32_t stage) const {
    // While one group adds and splits, the tensor cores have the other's products.
    take_turn();
    begin_products();
#pragma unroll
    for (int i = 0; i < kLeftProducts; ++i) {
      const std::uint64_t high = lines_at(stage + i * kProductBytes);
      const std::uint64_t middle = high + (Stages::kPartBytes >> 4);
      const std::uint64_t low = middle + (Stages::kPartBytes >> 4);
      multiply_lines(to, left[i].low, high, i > 0);
      multiply_lines(to, left[i].high, low, 1);
      multiply_lines(to, left[i].middle, middle, 1);
      multiply_lines(to, left[i].middle, high, 1);
      multiply_lines(to, left[i].high, middle, 1);
    }
#pragma unroll
    for (int i = 0; i < kLeftProducts; ++i) {
      multiply_lines(to, left[i].high, lines_at(stage + i * kProductBytes), 1);
    }
    end_products();
    give_turn();
    wait_for_products();
  }

  __device__ void take_turn() const {
    asm volatile("bar.sync %0, %1;" ::"r"(1 + group_), "n"(kMultipliers) : "memory");
  }
  __device__ void give_turn() const {
    asm volatile("bar.arrive %0, %1;" ::"r"(2 - group_), "n"(kMultipliers) : "memory");
  }

  const Arguments& args_;
  const Stages& stages_;
  const Rows left_;
  const Sink sink_;
  const int group_;
  LeftNumbers next_;  ///< on their way
  StagePlace place_;
};

}  // namespace sluice::kernels::matmul::cuda::by_parts
