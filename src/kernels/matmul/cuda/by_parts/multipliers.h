#pragma once

#include "kernels/matmul/cuda/by_parts/left_rows.h"

namespace sluice::kernels::matmul::cuda::by_parts {

/// A warpgroup that multiplies: 64 rows of a tile.
class Multiplier {
 public:
  __device__ Multiplier(const Arguments& args, const Stages& stages)
      : args_(args), stages_(stages), left_(args), group_(threadIdx.x / kWarpgroup) {}

  __device__ void run() {
    if (group_ == 1) give_turn();
    const int count = Work::count(args_);
    Work work(args_, blockIdx.x);
    left_.load(next_, left_.row(work), work.depth_begin);
    for (int i = blockIdx.x; i < count; i += gridDim.x) {
      const int following = i + gridDim.x;
      const Work after(args_, following < count ? following : i);
      run(work, after);
      work = after;
    }
    if (group_ == 0) take_turn();
  }

 private:
  /// Of the warpgroup's rows, as multiply_lines leaves them.
  using Sums = float[64];
  static constexpr int kSteps = kStageDepth / LeftRows::kDepth;  ///< in a stage

  /// `after`: whose first numbers are on their way while sums are written.
  __device__ void run(const Work& work, const Work& after) {
    Sums sums, added;
#pragma unroll
    for (float& sum : sums) sum = 0;
    const int stages = (work.depth_end - work.depth_begin + kStageDepth - 1) / kStageDepth;
    const int row = left_.row(work), steps = stages * kSteps;
#pragma unroll 1
    for (int i = 0; i < steps; ++i) {
      const int step = i % kSteps;
      if (step == 0) wait_for_phase(stages_.filled(place_.stage), place_.parity);
      LeftParts parts[LeftRows::kProducts];
#pragma unroll
      for (int j = 0; j < LeftRows::kProducts; ++j) parts[j] = left_.split(next_[j]);
      const bool last = i + 1 == steps;
      left_.load(next_, last ? left_.row(after) : row,
                 last ? after.depth_begin : work.depth_begin + (i + 1) * LeftRows::kDepth);
      multiply(added, parts, stages_.at(place_.stage) + step * (kLineBytes / kSteps));
      if (step == kSteps - 1) {
        if (threadIdx.x % kWarpSize == 0) arrive(stages_.emptied(place_.stage));
        place_.advance();
      }
#pragma unroll
      for (int j = 0; j < 64; ++j) sums[j] += added[j];
    }
    write(work, row, sums);
  }

  /// Tensor cores cut off where they add, which shows in long sums (of positive terms 50 times
  /// float32's own error at a depth of 4096): so they add up 32 of the depth, the smallest terms
  /// first, and these sums are added with rounding.
  __device__ void multiply(Sums& to, const LeftParts (&left)[LeftRows::kProducts],
                           std::uint32_t stage) const {
    // While one group adds and splits, the tensor cores have the other's products.
    take_turn();
    begin_products();
#pragma unroll
    for (int i = 0; i < LeftRows::kProducts; ++i) {
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
    for (int i = 0; i < LeftRows::kProducts; ++i) {
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

  /// Of a thread's sums in c, pairs of numbers in two rows.
  struct Place {
    float* c;
    int row, column;
  };
  /// Calls action(to, sum) for each pair if all of the tile is in c and pairs may be read and
  /// written at a time.
  template <typename Action>
  __device__ void for_pairs(const Place& place, Sums& sums, const Action& action) const {
#pragma unroll
    for (int q = 0; q < 2; ++q) {
#pragma unroll
      for (int i = 0; i < 16; ++i) {
        action(reinterpret_cast<float2*>(place.c + q * args_.c_stride + i * 8),
               reinterpret_cast<float2&>(sums[4 * i + 2 * q]));
      }
    }
  }
  /// Calls action(to, sum) for each number that is in c.
  template <typename Action>
  __device__ void for_numbers(const Place& place, Sums& sums, const Action& action) const {
#pragma unroll
    for (int q = 0; q < 2; ++q) {
      if (place.row + q >= args_.m) continue;
#pragma unroll
      for (int i = 0; i < 32; ++i) {
        const int column = i / 2 * 8 + i % 2;
        if (place.column + column >= args_.n) continue;
        action(place.c + q * args_.c_stride + column, sums[i / 2 * 4 + 2 * q + i % 2]);
      }
    }
  }

  __device__ void write(const Work& work, int row, Sums& sums) const {
    const int column = work.column + static_cast<int>(threadIdx.x) % 4 * 2;
    const Place place{args_.c + work.split * args_.c_step + row * args_.c_stride + column, row,
                      column};
    const bool whole =
        args_.c_aligned && work.row + kTile <= args_.m && work.column + kTile <= args_.n;
#pragma unroll
    for (float& sum : sums) sum *= args_.alpha;
    if (args_.beta != 0) {
      if (whole) {
        for_pairs(place, sums, [&](const float2* c, float2& sum) {
          const float2 before = *c;
          sum.x += args_.beta * before.x;
          sum.y += args_.beta * before.y;
        });
      } else {
        for_numbers(place, sums, [&](const float* c, float& sum) { sum += args_.beta * *c; });
      }
    }
    if (args_.bias != nullptr) add_bias(column, sums);
    if (whole) {
      for_pairs(place, sums, [](float2* c, const float2& sum) { *c = sum; });
    } else {
      for_numbers(place, sums, [](float* c, const float& sum) { *c = sum; });
    }
  }
  __device__ void add_bias(int column, Sums& sums) const {
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      const int at = column + i / 2 * 8 + i % 2;
      const float bias = at < args_.n ? __ldg(args_.bias + at) : 0;
      sums[i / 2 * 4 + i % 2] += bias;
      sums[i / 2 * 4 + 2 + i % 2] += bias;
    }
  }

  const Arguments& args_;
  const Stages& stages_;
  const LeftRows left_;
  const int group_;
  LeftRows::Numbers next_;  ///< on their way
  StagePlace place_;
};

}  // namespace sluice::kernels::matmul::cuda::by_parts
