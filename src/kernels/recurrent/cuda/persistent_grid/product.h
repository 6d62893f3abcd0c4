#pragma once

#include "kernels/recurrent/cuda/persistent/tensor_core.h"
#include "kernels/recurrent/cuda/persistent_grid/exchange.h"

/// The recurrent product of a step: kBands x 16 rows of weights, which stay in registers, with what
/// all blocks have sent. A warp multiplies its share of the depth as it comes.
namespace sluice::kernels::recurrent::cuda::persistent_grid {

/// A warp takes 32 of the depth at once, kLoads times: thread 4g + q the octet q of them, of row g.
/// Bands that registers don't hold stay in shared memory.
template <typename T, int kBands, int kLoads, int kTiles>
class Product {
 public:
  using Sums = SumBuffer<kBands * 16, kTiles>;
  static constexpr int kMostRegisters = 144;  ///< of a thread, for weights
  static constexpr int kHeld =
      kBands < kMostRegisters / (8 * kLoads) ? kBands : kMostRegisters / (8 * kLoads);
  /// Of shared memory, for the others.
  static constexpr int kBytes = (kBands - kHeld) * kLoads * 2 * kThreads * 16;

  /// `weights` as packed; `part` of the depth is this warp's.
  __device__ Product(const void* weights, const Grid& grid, const Exchange& exchange, int part,
                     std::byte* shared)
      : shared_(reinterpret_cast<uint4*>(shared) + threadIdx.x),
        lane_(static_cast<int>(threadIdx.x) % 32),
        loads_(grid.loads),
        rows_(exchange.layout().rows) {
    const int warp = static_cast<int>(blockIdx.x) % grid.blocks * kWarps + threadIdx.x / 32;
    const uint4* from = static_cast<const uint4*>(weights) +
                        static_cast<std::int64_t>(warp) * kLoads * 2 * kBands * 32 + lane_;
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
#pragma unroll
        for (int m = 0; m < kBands; ++m) {
          const uint4 fragment = from[((i * 2 + e) * kBands + m) * 32];
          if (m < kHeld) {
            reinterpret_cast<uint4&>(weights_[i][e][m < kHeld ? m : 0]) = fragment;
          } else {
            shared_[shared_index(i, e, m)] = fragment;
          }
        }
      }
    }
    const BufferLayout& layout = exchange.layout();
    const int first = part * loads_ * 4 + lane_ % 4;
    mine_ = min((layout.octets - first + 3) / 4, loads_);
    offset_ = layout.offset(first, lane_ / 4);
    pitch_ = layout.pitch();
  }

  /// Multiplies what comes in `buffer`, and leaves the warp's sums. Calls `meanwhile` when it has
  /// looked for the first time.
  template <typename Meanwhile>
  __device__ void run(const std::byte* buffer, float* sums, const Meanwhile& meanwhile) const {
    const std::byte* from = buffer + offset_;
    uint4 b[kWindow][kTiles];
    // What doesn't exist is zero, and so never looked for.
    const auto expect = [&](int i) {
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
        const std::uint32_t word = i < mine_ && n * 8 + lane_ / 4 < rows_ ? kAbsent : 0;
        b[i % kWindow][n] = make_uint4(word, word, word, word);
      }
    };
    const auto look_for = [&](int i) {
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
        uint4& v = b[i % kWindow][n];
        if (lacks(v)) v = look(from + i * pitch_ + n * BufferLayout::kTileBytes);
      }
    };
    const auto lacking = [&](int i) {
      bool any = false;
#pragma unroll
      for (int n = 0; n < kTiles; ++n) any |= lacks(b[i % kWindow][n]);
      return __any_sync(0xFFFFFFFF, any);
    };
#pragma unroll
    for (int i = 0; i < kWindow; ++i) expect(i);
#pragma unroll
    for (int i = 0; i < kWindow; ++i) look_for(i);
    meanwhile();
    float acc[kChains][kBands][kTiles][4] = {};
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      if (i >= loads_) continue;
      while (lacking(i)) {
#pragma unroll
        for (int j = i; j < kLoads && j < i + kWindow; ++j) look_for(j);
      }
#pragma unroll
      for (int e = 0; e < 2; ++e) {
#pragma unroll
        for (int m = 0; m < kBands; ++m) {
          std::uint32_t a[4];
          if (m < kHeld) {
            reinterpret_cast<uint4&>(a) =
                reinterpret_cast<const uint4&>(weights_[i][e][m < kHeld ? m : 0]);
          } else {
            reinterpret_cast<uint4&>(a) = shared_[shared_index(i, e, m)];
          }
#pragma unroll
          for (int n = 0; n < kTiles; ++n) {
            const uint4& v = b[i % kWindow][n];
            persistent::multiply_add<T>(acc[e % kChains][m][n], a, e == 0 ? v.x : v.z,
                                        e == 0 ? v.y : v.w);
          }
        }
      }
      if (i + kWindow < kLoads) {
        expect(i + kWindow);
        look_for(i + kWindow);
      }
    }
    leave(acc, sums + threadIdx.x / 32 * Sums::kWarp + lane_ % 4 / 2 * Sums::kHalf + lane_ / 4 * 4 +
                   lane_ % 2 * 2);
  }

 private:
  /// Loads on their way, as many as registers allow.
  static constexpr int kWindow = kLoads * kTiles <= 8 ? kLoads : 8 / kTiles;
  /// Sums that don't wait for each other: a product's latency is that of four or five.
  static constexpr int kChains = kBands * kTiles < 4 ? 2 : 1;

  /// The thread's own fragments; nobody else reads them.
  __device__ static constexpr int shared_index(int i, int e, int m) {
    return ((i * 2 + e) * (kBands - kHeld) + m - kHeld) * kThreads;
  }

  __device__ void leave(const float (&acc)[kChains][kBands][kTiles][4], float* sums) const {
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      if (n * 8 + lane_ % 4 * 2 >= rows_) continue;
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

  uint4* const shared_;
  const int lane_, loads_, rows_;
  int mine_;    ///< loads that exist for this thread
  int offset_;  ///< of the thread's first octet and row in a buffer
  int pitch_;
  std::uint32_t weights_[kLoads][2][kHeld][4];
};

}  // namespace sluice::kernels::recurrent::cuda::persistent_grid
