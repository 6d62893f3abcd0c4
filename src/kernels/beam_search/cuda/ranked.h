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
/// Candidates of an input are ranked in the same way, by score and then by place.
template <typename T>
struct alignas(2 * sizeof(T)) Ranked {
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  Bits logit;           ///< ordered bits; 0: none
  std::uint32_t token;  ///< all bits inverted

  static __device__ Ranked none() { return {0, 0}; }
  static __device__ Ranked of(T logit_value, int token_value) {
    return {ordered(logit_value), ~static_cast<std::uint32_t>(token_value)};
  }
  __device__ bool exists() const { return logit != 0; }
  __device__ std::int32_t id() const { return static_cast<std::int32_t>(~token); }
  __device__ bool above(const Ranked& other) const {
    // Without a branch.
    const bool is_equal = logit == other.logit, is_above = logit > other.logit;
    return is_above | (is_equal & (token > other.token));
  }
};

template <typename T>
__device__ Ranked<T> best_of_warp(const Ranked<T>& own) {
  const auto logit = largest_of_warp(own.logit);
  return {logit, largest_of_warp(own.logit == logit ? own.token : std::uint32_t{0})};
}

template <typename T>
__device__ Ranked<T> of_lane(const Ranked<T>& own, int lane) {
  return {__shfl_sync(kAllLanes, own.logit, lane), __shfl_sync(kAllLanes, own.token, lane)};
}

/// That of the lane whose number differs by `distance`, a power of two.
template <typename T>
__device__ Ranked<T> of_lane_across(const Ranked<T>& own, int distance) {
  return {__shfl_xor_sync(kAllLanes, own.logit, distance),
          __shfl_xor_sync(kAllLanes, own.token, distance)};
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

template <typename T>
__device__ Ranked<T> chosen(bool first, const Ranked<T>& one, const Ranked<T>& other) {
  return {first ? one.logit : other.logit, first ? one.token : other.token};
}

/// Of two lists of 32, best first, the best 32, best first: a lane has its element of one and the
/// other's counted from the end.
template <typename T>
__device__ Ranked<T> best_of_lists(const Ranked<T>& one, const Ranked<T>& other_from_end) {
  Ranked<T> best = chosen(other_from_end.above(one), other_from_end, one);
#pragma unroll
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    const Ranked<T> across = of_lane_across(best, distance);
    const bool is_first = (threadIdx.x & static_cast<unsigned>(distance)) == 0;
    best = chosen(across.above(best) == is_first, across, best);
  }
  return best;
}

}  // namespace sluice::kernels::beam_search::cuda
