#pragma once

#include <algorithm>

#include "kernels/recurrent/cuda/persistent/tensor_core.h"
#include "kernels/recurrent/cuda/persistent_grid/exchange.h"

/// The recurrent product of a step: kBands x 16 rows of weights, which stay in registers, with what
/// all blocks have sent. A warp multiplies its share of the depth as it comes.
namespace sluice::kernels::recurrent::cuda::persistent_grid {

/// A warp takes 32 of the depth at once, kLoads times: thread 4g + q the octet q of them, of row g.
/// What registers don't hold of the weights stays in shared memory.
template <typename T, int kBands, int kGates, int kLoads>
class Product {
 public:
  using Sums = SumBuffer<2 * kBands, kGates>;
  /// Sums that don't wait for each other: a product's latency is that of four or five.
  static constexpr int kChains = kBands < 4 ? 2 : 1;
  /// Of a thread, for weights, beside what is on its way and sums.
  static constexpr int kMostRegisters = 192 - 4 * (kLoads + kChains * kBands);
  /// Of a load's fragments, kBands for each half of the octets, those in registers and the others.
  static constexpr int kHeld = std::min(2 * kBands, kMostRegisters / (4 * kLoads));
  static constexpr int kShared = 2 * kBands - kHeld;
  static constexpr int kBytes = kShared * kLoads * kThreads * 16;  ///< of shared memory

  /// `weights` as packed; `part` of the depth is this warp's.
  __device__ Product(const void* weights, const Grid& grid, const Exchange<T>& exchange, int part,
                     std::byte* shared)
      : address_(shared_address(shared) + threadIdx.x * 16) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int warp = static_cast<int>(blockIdx.x) % grid.blocks * kWarps + threadIdx.x / 32;
    const uint4* from = static_cast<const uint4*>(weights) +
                        static_cast<std::int64_t>(warp) * kLoads * 2 * kBands * 32 + lane;
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
#pragma unroll
        for (int m = 0; m < kBands; ++m) {
          const uint4 fragment = from[((i * 2 + e) * kBands + m) * 32];
          if (m < held(e)) {
            held_[i][index(e, m)] = fragment;
          } else {
            reinterpret_cast<uint4*>(shared)[threadIdx.x + shared_index(i, e, m)] = fragment;
          }
        }
      }
    }
    const auto& layout = exchange.layout();
    const int first = part * grid.loads * 4 + lane % 4, row = lane / 4;
    // What doesn't exist is zero, and so never looked for.
    mine_ = row < layout.rows ? min((layout.octets - first + 3) / 4, grid.loads) : 0;
    offset_ = layout.offset(first, row);
  }

  /// Multiplies what comes in `buffer`, and leaves the warp's sums. Calls `meanwhile` when it has
  /// looked for the first time.
  template <typename Meanwhile>
  __device__ void run(const std::byte* buffer, float* sums, const Meanwhile& meanwhile) const {
    const std::byte* from = buffer + offset_;
    uint4 b[kLoads];
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const std::uint32_t word = i < mine_ ? kAbsent : 0;
      b[i] = make_uint4(word, word, word, word);
    }
    const auto look_for = [&](int first) {
#pragma unroll
      for (int i = first; i < kLoads; ++i) {
        if (lacks(b[i])) b[i] = look(from + i * Exchange<T>::Layout::kPitch);
      }
    };
    // Any of those that are awaited together.
    const auto lacks_any = [&](int first) {
      bool any = false;
#pragma unroll
      for (int i = first; i < kLoads && i < first + kTogether; ++i) any |= lacks(b[i]);
      return __any_sync(0xFFFFFFFF, any) != 0;
    };
    look_for(0);
    meanwhile();
    float acc[kChains][kBands][4] = {};
    // The next fragments of shared memory are on their way while others are multiplied or awaited.
    uint4 next[std::max(fetches(0), 1)];
#pragma unroll
    for (int m = held(0); m < kBands; ++m) next[m - held(0)] = fetch(0, 0, m);
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      while (i % kTogether == 0 && lacks_any(i)) look_for(i);
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const uint4& v = b[i];
#pragma unroll
        for (int m = 0; m < kBands; ++m) {
          auto& sum = acc[e % kChains][m];
          const std::uint32_t b0 = e == 0 ? v.x : v.z, b1 = e == 0 ? v.y : v.w;
          if (m < held(e)) {
            persistent::multiply_add<T>(sum, words_of(held_[i][index(e, m)]), b0, b1);
            continue;
          }
          const int f = m - held(e);
          persistent::multiply_add<T>(sum, words_of(next[f]), b0, b1);
          if (e == 0 && f < fetches(1)) {
            next[f] = fetch(i, 1, held(1) + f);
          } else if (i + 1 < kLoads) {
            next[f] = fetch(i + 1, 0, held(0) + f);
          }
        }
      }
    }
    if constexpr (kChains == 2) {
#pragma unroll
      for (int m = 0; m < kBands; ++m) {
#pragma unroll
        for (int k = 0; k < 4; ++k) acc[0][m][k] += acc[1][m][k];
      }
    }
    Sums::leave(acc[0], sums);
  }

 private:
  /// Loads that are awaited together: between two waits nothing is multiplied.
  static constexpr int kTogether = 2;

  /// Bands of the e-th half of the octets that are in registers, the first ones.
  __host__ __device__ static constexpr int held(int e) { return (kHeld + e) / 2; }
  __host__ __device__ static constexpr int fetches(int e) { return kBands - held(e); }
  __device__ static constexpr int index(int e, int m) { return e * held(0) + m; }
  /// The thread's own fragments; nobody else reads them.
  __device__ static constexpr int shared_index(int i, int e, int m) {
    return (i * kShared + e * fetches(0) + m - held(e)) * kThreads;
  }
  using Words = std::uint32_t[4];
  __device__ static const Words& words_of(const uint4& v) {
    return reinterpret_cast<const Words&>(v);
  }
  __device__ uint4 fetch(int i, int e, int m) const {
    uint4 v;
    asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"(address_ + shared_index(i, e, m) * 16));
    return v;
  }

  const std::uint32_t address_;  ///< of the thread's fragments in shared memory
  int mine_;                     ///< loads that exist for this thread
  int offset_;                   ///< of its first octet and row in a buffer
  uint4 held_[kLoads][kHeld];
};

}  // namespace sluice::kernels::recurrent::cuda::persistent_grid
