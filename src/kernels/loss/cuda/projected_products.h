#pragma once

#include "kernels/loss/cuda/projected_tile.h"

/// The three products of a tile: logits, the gradient of the weights and that of x.
namespace sluice::kernels::loss::cuda {

/// A warp's half of the logits of its pair's tokens, without the bias.
template <typename T, int kIn>
__device__ void multiply_logits(const ProjectedTile<T, kIn>& tile, const ProjectedPlace& place,
                                float (&logits)[kOwnEights][4]) {
  static_assert(kOwnEights == 3);
#pragma unroll
  for (auto& sums : logits) sums[0] = sums[1] = sums[2] = sums[3] = 0;
  const int row = place.pair * kPairTokens, first = place.half * 8 * kOwnEights;
  const std::uint32_t a_at = block_row<true>(tile.x, row, 0, place.lane);
  // Two eights at one depth, and the third at two.
  const std::uint32_t b_at = block_row<false>(tile.weight, first, 0, place.lane);
  const std::uint32_t c_at =
      shared_address(&tile.weight[first + 16 + place.lane % 8][place.lane / 8 * 8]);
#pragma unroll 2
  for (int k = 0; k < kIn; k += 32) {
    std::uint32_t c[4];
    load_blocks(c, c_at + static_cast<std::uint32_t>(k * sizeof(T)));
#pragma unroll
    for (int s = 0; s < 2; ++s) {
      const auto at = static_cast<std::uint32_t>((k + 16 * s) * sizeof(T));
      std::uint32_t a[4], b[4];
      load_blocks(a, a_at + at);
      load_blocks(b, b_at + at);
      multiply_add<T>(logits[0], a, b[0], b[1]);
      multiply_add<T>(logits[1], a, b[2], b[3]);
      multiply_add<T>(logits[2], a, c[2 * s], c[2 * s + 1]);
    }
  }
}

/// The gradient of all weights of an eighth of the columns, by a warp.
template <typename T, int kIn>
struct WeightSums {
  static constexpr int kColumns = kIn / 8, kTiles = kColumns / 8;
  static_assert(kTiles % 2 == 0);
  float at[kSixteens][kTiles][4];

  __device__ void clear() {
#pragma unroll
    for (auto& tiles : at) {
#pragma unroll
      for (auto& sums : tiles) sums[0] = sums[1] = sums[2] = sums[3] = 0;
    }
  }
  /// Adds the tile's gradient of logits, transposed, times its x; the first warps add up that of
  /// the bias, of 16 tokens each.
  __device__ void add(ProjectedTile<T, kIn>& tile, const ProjectedPlace& place) {
#pragma unroll 1
    for (int k = 0; k < kTileTokens; k += 16) {
      std::uint32_t a[kSixteens][4];
#pragma unroll
      for (int m = 0; m < kSixteens; ++m) {
        load_transposed(a[m], block_row<false>(tile.gradient, k, 16 * m, place.lane));
      }
      if (k == 16 * place.warp()) add_bias(tile.d_bias[k / 16], a, place);
#pragma unroll
      for (int t = 0; t < kTiles; t += 2) {
        std::uint32_t b[4];
        load_transposed(b, block_row<true>(tile.x, k, place.warp() * kColumns + 8 * t, place.lane));
#pragma unroll
        for (int m = 0; m < kSixteens; ++m) {
          multiply_add<T>(at[m][t], a[m], b[0], b[1]);
          multiply_add<T>(at[m][t + 1], a[m], b[2], b[3]);
        }
      }
    }
  }
  __device__ static void add_bias(float (&sums)[kTileClasses],
                                  const std::uint32_t (&gradient)[kSixteens][4],
                                  const ProjectedPlace& place) {
#pragma unroll
    for (int m = 0; m < kSixteens; ++m) {
#pragma unroll
      for (int upper = 0; upper < 2; ++upper) {
        const float2 low = unpacked_pair<T>(gradient[m][upper]);
        const float2 high = unpacked_pair<T>(gradient[m][2 + upper]);
        const float sum = runtime::cuda::combine_lanes<2, 1>((low.x + low.y) + (high.x + high.y),
                                                             runtime::cuda::Add{});
        if (place.lane % 4 == 0) sums[16 * m + 8 * upper + place.row()] += sum;
      }
    }
  }
  /// To [classes, kIn].
  __device__ void write(float* to, int classes, const ProjectedPlace& place) const {
#pragma unroll
    for (int m = 0; m < kSixteens; ++m) {
#pragma unroll
      for (int upper = 0; upper < 2; ++upper) {
        const int j = 16 * m + 8 * upper + place.row();
        if (j >= classes) continue;
#pragma unroll
        for (int t = 0; t < kTiles; ++t) {
          const int column = place.warp() * kColumns + 8 * t + place.column();
          *reinterpret_cast<float2*>(to + j * kIn + column) = {at[m][t][2 * upper],
                                                               at[m][t][2 * upper + 1]};
        }
      }
    }
  }
};

/// The gradient of x of the pair's tokens, a half of the columns, in the place of x.
template <typename T, int kIn>
__device__ void multiply_back(ProjectedTile<T, kIn>& tile, const ProjectedPlace& place) {
  const int row = place.pair * kPairTokens, first = place.half * (kIn / 2);
  std::uint32_t a[kSixteens][4];
#pragma unroll
  for (int m = 0; m < kSixteens; ++m) {
    load_blocks(a[m], block_row<true>(tile.gradient, row, 16 * m, place.lane));
  }
#pragma unroll 2
  for (int column = first; column < first + kIn / 2; column += 16) {
    float sums[2][4] = {};
#pragma unroll
    for (int m = 0; m < kSixteens; ++m) {
      std::uint32_t b[4];
      load_transposed(b, block_row<true>(tile.weight, 16 * m, column, place.lane));
      multiply_add<T>(sums[0], a[m], b[0], b[1]);
      multiply_add<T>(sums[1], a[m], b[2], b[3]);
    }
#pragma unroll
    for (int t = 0; t < 2; ++t) {
#pragma unroll
      for (int upper = 0; upper < 2; ++upper) {
        *reinterpret_cast<std::uint32_t*>(
            &tile.x[row + place.row() + 8 * upper][column + 8 * t + place.column()]) =
            packed_pair<T>(sums[t][2 * upper], sums[t][2 * upper + 1]);
      }
    }
  }
}

}  // namespace sluice::kernels::loss::cuda
