#pragma once

#include "kernels/recurrent/cuda/persistent/tensor_core.h"
#include "kernels/recurrent/cuda/persistent_grid/exchange.h"

/// The recurrent product of a step: kBands x 16 rows of weights, which stay in registers, with what
/// all blocks have sent. A warp multiplies its share of the depth as it comes.
namespace sluice::kernels::recurrent::cuda::persistent_grid {

/// A warp takes 32 of the depth at once, kLoads times: thread 4g + q the octet q of them, of row g.
template <typename T, int kBands, int kLoads, int kTiles>
class Product {
 public:
  using Sums = SumBuffer<kBands * 16, kTiles>;

  /// `weights` as packed; `part` of the depth's octets is this warp's.
  __device__ Product(const void* weights, const Grid& grid, int octets, int part, int rows)
      : lane_(static_cast<int>(threadIdx.x) % 32), loads_(grid.loads), rows_(rows) {
    const int warp = static_cast<int>(blockIdx.x) % grid.blocks * kWarps + threadIdx.x / 32;
    const uint4* from = static_cast<const uint4*>(weights) +
                        static_cast<std::int64_t>(warp) * kLoads * 2 * kBands * 32 + lane_;
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
#pragma unroll
        for (int m = 0; m < kBands; ++m) {
          reinterpret_cast<uint4&>(weights_[i][e][m]) = from[((i * 2 + e) * kBands + m) * 32];
        }
      }
    }
    const int first = part * loads_ * 4 + lane_ % 4;
    mine_ = min((octets - first + 3) / 4, loads_);
    offset_ = (first * rows + lane_ / 4) * 16;
  }

  /// Multiplies what comes in `buffer`, and leaves the warp's sums.
  __device__ void run(const std::byte* buffer, float* sums) const {
    buffer += offset_;
    sums += threadIdx.x / 32 * Sums::kWarp + lane_ % 4 / 2 * Sums::kHalf + lane_ / 4 * 4 +
            lane_ % 2 * 2;
#pragma unroll
    for (int tile = 0; tile < kTiles; tile += kPass) {
      if (tile * 8 < rows_) run_pass(buffer + tile * 128, tile, sums + tile * Sums::kTile);
    }
  }

 private:
  static constexpr int kPass = kTiles < 2 ? 1 : 2;         ///< tiles at once
  static constexpr int kWindow = kLoads < 4 ? kLoads : 4;  ///< loads on their way
  /// Sums that don't wait for each other: a product's latency is that of four or five.
  static constexpr int kChains = kBands * kPass < 4 ? 2 : 1;
  /// With more than a tile, looking in vain costs bandwidth that others need: only for the first
  /// octets it's done again and again.
  static constexpr bool kLookAhead = kTiles == 1;

  __device__ void run_pass(const std::byte* from, int tile, float* sums) const {
    float acc[kChains][kBands][kPass][4] = {};
    uint4 b[kWindow][kPass];
    const auto row_exists = [&](int n) { return (tile + n) * 8 + lane_ / 4 < rows_; };
    // What doesn't exist is zero, and so never looked for.
    const auto expect = [&](int i) {
#pragma unroll
      for (int n = 0; n < kPass; ++n) {
        const std::uint32_t word = i < mine_ && row_exists(n) ? kAbsent : 0;
        b[i % kWindow][n] = make_uint4(word, word, word, word);
      }
    };
    const auto look_for = [&](int i) {
#pragma unroll
      for (int n = 0; n < kPass; ++n) {
        uint4& v = b[i % kWindow][n];
        if (lacks(v)) v = look(from + i * 64 * rows_ + n * 128);
      }
    };
    const auto lacking = [&](int i) {
      bool any = false;
#pragma unroll
      for (int n = 0; n < kPass; ++n) any |= lacks(b[i % kWindow][n]);
      return __any_sync(0xFFFFFFFF, any);
    };
#pragma unroll
    for (int i = 0; i < kWindow; ++i) expect(i);
#pragma unroll
    for (int i = 0; i < (kLookAhead ? kWindow : 1); ++i) look_for(i);
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      if (i >= loads_) continue;
      while (lacking(i)) {
#pragma unroll
        for (int j = i; j < kLoads && j < i + (kLookAhead || i > 0 ? kWindow : 1); ++j) look_for(j);
      }
      if (!kLookAhead && i == 0) {
#pragma unroll
        for (int j = 1; j < kWindow; ++j) look_for(j);
      }
#pragma unroll
      for (int e = 0; e < 2; ++e) {
#pragma unroll
        for (int n = 0; n < kPass; ++n) {
          const uint4& v = b[i % kWindow][n];
#pragma unroll
          for (int m = 0; m < kBands; ++m) {
            multiply_add(acc[e % kChains][m][n], weights_[i][e][m], e == 0 ? v.x : v.z,
                         e == 0 ? v.y : v.w);
          }
        }
      }
      if (i + kWindow < kLoads) {
        expect(i + kWindow);
        look_for(i + kWindow);
      }
    }
#pragma unroll
    for (int n = 0; n < kPass; ++n) {
      if ((tile + n) * 8 + lane_ % 4 * 2 >= rows_) continue;
#pragma unroll
      for (int m = 0; m < kBands; ++m) {
        float* to = sums + n * Sums::kTile + m * 64;
        float s[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          s[k] = kChains == 1 ? acc[0][m][n][k] : acc[0][m][n][k] + acc[kChains - 1][m][n][k];
        }
        *reinterpret_cast<float2*>(to) = make_float2(s[0], s[1]);
        *reinterpret_cast<float2*>(to + 32) = make_float2(s[2], s[3]);
      }
    }
  }

  __device__ static void multiply_add(float (&sum)[4], const std::uint32_t (&a)[4],
                                      std::uint32_t b0, std::uint32_t b1) {
    persistent::multiply_add<T>(sum, a, b0, b1);
  }

  const int lane_, loads_, rows_;
  int mine_;    ///< loads that exist for this thread
  int offset_;  ///< of the thread's first octet and row in a buffer
  std::uint32_t weights_[kLoads][2][kBands][4];
};

}  // namespace sluice::kernels::recurrent::cuda::persistent_grid
