#pragma once

#include "kernels/matmul/cuda/by_parts/multipliers.h"

namespace sluice::kernels::matmul::cuda::by_parts {

/// Writes the sums of a tile to c.
class TileOfC {
 public:
  __device__ explicit TileOfC(const Arguments& args) : args_(args) {}

  __device__ void write(const Work& work, int row, Sums& sums) const {
    const int column = work.column + first_column();
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

 private:
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
};

}  // namespace sluice::kernels::matmul::cuda::by_parts
