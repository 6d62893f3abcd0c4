#pragma once

#include <cstdint>
#include <type_traits>

#include "runtime/cuda/reduce.h"

/// Numbers as integers of the same order, and the best of many.
namespace sluice::kernels::beam_search::cuda {

using runtime::cuda::kAllLanes;
using runtime::cuda::kWarp;
using runtime::cuda::Team;

/// Of two numbers that aren't NaN the larger has the larger bits; zeros are equal. Never 0.
__device__ inline std::uint32_t ordered(float x) {
  const std::uint32_t bits = __float_as_uint(x + 0.0f);  // -0 becomes 0
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}
__device__ inline std::uint64_t ordered(double x) {
  const auto bits = static_cast<std::uint64_t>(__double_as_longlong(x + 0.0));
  constexpr std::uint64_t kSign = std::uint64_t{1} << 63;
  return (bits & kSign) != 0 ? ~bits : bits | kSign;
}

__device__ inline std::uint32_t largest_of_warp(std::uint32_t value) {
  return __reduce_max_sync(kAllLanes, value);
}
__device__ inline std::uint64_t largest_of_warp(std::uint64_t value) {
  const auto high = static_cast<std::uint32_t>(value >> 32);
  const std::uint32_t best = largest_of_warp(high);
  const std::uint32_t low =
      largest_of_warp(high == best ? static_cast<std::uint32_t>(value) : std::uint32_t{0});
  return static_cast<std::uint64_t>(best) << 32 | low;
}

/// A token and its logit, ranked as the search ranks them: the larger logit, then the lower token.
template <typename T>
struct Ranked {
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  Bits logit;           ///< ordered bits; 0: none
  std::uint32_t token;  ///< all bits inverted

  static __device__ Ranked none() { return {0, 0}; }
  static __device__ Ranked above_all() { return {~Bits{0}, ~0u}; }
  static __device__ Ranked of(T logit_value, int token_value) {
    return {ordered(logit_value), ~static_cast<std::uint32_t>(token_value)};
  }
  __device__ bool exists() const { return logit != 0; }
  __device__ std::int32_t id() const { return static_cast<std::int32_t>(~token); }
  __device__ bool above(const Ranked& other) const {
    return logit != other.logit ? logit > other.logit : token > other.token;
  }
};

template <typename T>
__device__ Ranked<T> best_of_warp(const Ranked<T>& own) {
  const auto logit = largest_of_warp(own.logit);
  return {logit, largest_of_warp(own.logit == logit ? own.token : std::uint32_t{0})};
}

/// Every thread gets the best of all. `parts` is shared, kSize / 32 of them.
template <int kSize, typename T>
__device__ Ranked<T> best_of_team(const Team<kSize>& team, const Ranked<T>& own, Ranked<T>* parts) {
  const Ranked<T> best = best_of_warp(own);
  if constexpr (kSize == kWarp) {
    return best;
  } else {
    const int lane = team.rank % kWarp;
    team.sync();  // what stood there may still be read
    if (lane == 0) parts[team.rank / kWarp] = best;
    team.sync();
    return best_of_warp(lane < kSize / kWarp ? parts[lane] : Ranked<T>::none());
  }
}

/// Best first; size is a power of two. Bitonic: those that differ end in one order.
template <int kSize, typename T>
__device__ void sort_ranked(const Team<kSize>& team, Ranked<T>* all, int size) {
  for (int width = 2; width <= size; width *= 2) {
    for (int distance = width / 2; distance > 0; distance /= 2) {
      team.sync();
      for (int pair = team.rank; pair < size / 2; pair += kSize) {
        const int low = 2 * pair - pair % distance, high = low + distance;
        const Ranked<T> a = all[low], b = all[high];
        if (b.above(a) == ((low & width) == 0)) {
          all[low] = b;
          all[high] = a;
        }
      }
    }
  }
  team.sync();
}

/// Best first, by a warp: element r * 32 + lane is all[r] of that lane. Bitonic as well.
template <int kPerLane, typename T>
__device__ void sort_in_warp(Ranked<T> (&all)[kPerLane]) {
  const int lane = static_cast<int>(threadIdx.x % kWarp);
#pragma unroll
  for (int width = 2; width <= kWarp * kPerLane; width *= 2) {
#pragma unroll
    for (int distance = width / 2; distance > 0; distance /= 2) {
#pragma unroll
      for (int r = 0; r < kPerLane; ++r) {
        const int element = r * kWarp + lane;
        const bool best_first = (element & width) == 0;
        if (distance >= kWarp) {
          const int other = r ^ (distance / kWarp);
          if (r < other && all[other].above(all[r]) == best_first) {
            const Ranked<T> moved = all[r];
            all[r] = all[other];
            all[other] = moved;
          }
        } else {
          const Ranked<T> other{__shfl_xor_sync(kAllLanes, all[r].logit, distance),
                                __shfl_xor_sync(kAllLanes, all[r].token, distance)};
          const bool is_first = (element & distance) == 0;
          if (other.above(all[r]) == (is_first == best_first)) all[r] = other;
        }
      }
    }
  }
}

}  // namespace sluice::kernels::beam_search::cuda
