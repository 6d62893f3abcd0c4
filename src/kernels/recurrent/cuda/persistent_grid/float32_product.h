#pragma once

#include <type_traits>

#include "kernels/recurrent/cuda/persistent_grid/product.h"

/// The recurrent product of a step in float32: kBands x 8 rows of weights, which stay in registers,
/// with what all blocks have sent, one row of that after the other.
namespace sluice::kernels::recurrent::cuda::persistent_grid {

/// A warp takes 32 of the depth at once, kLoads times. Thread 8c + q multiplies four of those, the
/// q-th, with the c-th quarter of the rows of weights; then the threads of a quarter add up, each
/// in the end some of its rows.
template <int kBands, int kGates, int kLoads>
class ProductInFloat32 {
 public:
  using Sums = SumBuffer<kBands, kGates>;
  static constexpr int kBytes = 0;  ///< of shared memory

  /// `weights` as packed; `part` of the depth is this warp's.
  __device__ ProductInFloat32(const void* weights, const Grid& grid,
                              const Exchange<float>& exchange, int part, std::byte* /*shared*/)
      : rows_(exchange.layout().rows), loads_(grid.loads) {
    const int lane = static_cast<int>(threadIdx.x) % 32, quad = lane % kQuads;
    const int warp = static_cast<int>(blockIdx.x) % grid.blocks * kWarps + threadIdx.x / 32;
    const float4* from = static_cast<const float4*>(weights) +
                         static_cast<std::int64_t>(warp) * kLoads * kRows * 32 + lane;
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
#pragma unroll
      for (int r = 0; r < kRows; ++r) held_[i][r] = from[(i * kRows + r) * 32];
    }
    const auto& layout = exchange.layout();
    const int first = part * grid.loads * 4 + quad / 2;
    // What doesn't exist is zero, and so never looked for.
    mine_ = min((layout.octets - first + 3) / 4, grid.loads);
    offset_ = layout.offset(first, 0) + quad % 2 * 16;
    int begin = 0, count = kRows;
#pragma unroll
    for (int distance = kQuads / 2, most = kRows; distance > 0; distance /= 2) {
      const int half = (most + 1) / 2;
      if (lane & distance) begin += half;
      count = lane & distance ? count - half : min(count, half);
      most = half;
    }
#pragma unroll
    for (int k = 0; k < kSums; ++k) {
      const int row = lane / kQuads * kRows + begin + k, eight = row / kOctet;
      const int unit = eight / kGates * kOctet + row % kOctet;
      place_[k] = k < count ? static_cast<int>(threadIdx.x) / 32 * Sums::kWarp +
                                  unit * Sums::kUnit + eight % kGates
                            : -1;
    }
  }

  /// Multiplies what comes in `buffer`, and leaves the warp's sums. Calls `meanwhile` when it has
  /// looked for the first time.
  template <typename Meanwhile>
  __device__ void run(const std::byte* buffer, float* sums, const Meanwhile& meanwhile) const {
    const std::byte* from = buffer + offset_;
    uint4 next[kLoads];
    look_first(next, from);
    meanwhile();
    for (int row = 0; row < rows_; ++row) {
      while (lacks_any(next)) look_again(next, from);
      float4 values[kLoads];
#pragma unroll
      for (int i = 0; i < kLoads; ++i) values[i] = reinterpret_cast<const float4&>(next[i]);
      from += Exchange<float>::Layout::kOctetBytes;
      if (row + 1 < rows_) look_first(next, from);
      float sum[kRows] = {};
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
        if (i >= loads_) break;
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
          const float4& w = held_[i][r];
          sum[r] = fmaf(w.x, values[i].x, sum[r]);
          sum[r] = fmaf(w.y, values[i].y, sum[r]);
          sum[r] = fmaf(w.z, values[i].z, sum[r]);
          sum[r] = fmaf(w.w, values[i].w, sum[r]);
        }
      }
      add_up<kRows, kQuads / 2>(sum);
      float* to = sums + row / 4 * Sums::kHalf + row % 4 * (sizeof(typename Sums::Value) / 4);
#pragma unroll
      for (int k = 0; k < kSums; ++k) {
        if (place_[k] >= 0) to[place_[k]] = sum[k];
      }
    }
  }

 private:
  static constexpr int kQuads = 8;                   ///< of 32 of the depth
  static constexpr int kRows = kBands * kOctet / 4;  ///< of weights, a thread
  /// Of them a thread has in the end: half of them three times, rounded up.
  static constexpr int kSums = (((kRows + 1) / 2 + 1) / 2 + 1) / 2;

  __device__ void look_again(uint4 (&values)[kLoads], const std::byte* from) const {
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      if (lacks(values[i])) values[i] = look(from + i * Exchange<float>::Layout::kPitch);
    }
  }
  __device__ void look_first(uint4 (&values)[kLoads], const std::byte* from) const {
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const std::uint32_t word = i < mine_ ? kAbsent : 0;
      values[i] = make_uint4(word, word, word, word);
    }
    look_again(values, from);
  }
  __device__ static bool lacks_any(const uint4 (&values)[kLoads]) {
    bool any = false;
#pragma unroll
    for (int i = 0; i < kLoads; ++i) any |= lacks(values[i]);
    return __any_sync(0xFFFFFFFF, any) != 0;
  }

  /// Of kCount sums each of two threads that are kDistance apart takes half.
  template <int kCount, int kDistance>
  __device__ static void add_up(float (&sum)[kRows]) {
    if constexpr (kDistance > 0) {
      constexpr int kHalf = (kCount + 1) / 2;
      const bool upper = (threadIdx.x & kDistance) != 0;
#pragma unroll
      for (int k = 0; k < kHalf; ++k) {
        const float high = kHalf + k < kCount ? sum[kHalf + k] : 0.0f;
        const float other = __shfl_xor_sync(0xFFFFFFFF, upper ? sum[k] : high, kDistance);
        sum[k] = (upper ? high : sum[k]) + other;
      }
      add_up<kHalf, kDistance / 2>(sum);
    }
  }

  const int rows_, loads_;
  int mine_;          ///< loads that exist for this thread
  int offset_;        ///< of its first quad in a buffer
  int place_[kSums];  ///< of its sums of the first row, or -1
  float4 held_[kLoads][kRows];
};

template <typename T, int kBands, int kGates, int kLoads>
using ProductOf = std::conditional_t<sizeof(T) == 4, ProductInFloat32<kBands, kGates, kLoads>,
                                     Product<T, kBands, kGates, kLoads>>;

}  // namespace sluice::kernels::recurrent::cuda::persistent_grid
