#pragma once

#include <cuda_runtime.h>

/// Device code for the .cu files of kernels/**/cuda: reductions in one fixed order.
namespace sluice::runtime::cuda {

inline constexpr unsigned kAllLanes = 0xffffffffu;
inline constexpr int kWarp = 32;

struct Add {
  template <typename T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};

/// Passes over NaN in b.
struct Larger {
  template <typename T>
  __device__ T operator()(T a, T b) const {
    return b > a ? b : a;
  }
};

/// Lanes that differ by any of kDistances get the combination of their values, of those first that
/// differ by the first of these. `combine` must not depend on the order of its two arguments.
template <int... kDistances, typename T, typename Combine>
__device__ T combine_lanes(T value, Combine combine) {
  ((value = combine(value, __shfl_xor_sync(kAllLanes, value, kDistances))), ...);
  return value;
}
/// That of a warp, in every lane.
template <typename T, typename Combine>
__device__ T combine_warp(T value, Combine combine) {
  return combine_lanes<16, 8, 4, 2, 1>(value, combine);
}

/// Threads that work on one thing together: a warp (kSize 32, any number of them in a block) or a
/// whole block. `combine` must not depend on the order of its two arguments.
template <int kSize>
struct Team {
  /// Warps in the team, a power of two.
  static constexpr int kWarps = kSize / kWarp;
  static_assert(kSize % kWarp == 0 && kWarps <= kWarp && (kWarps & (kWarps - 1)) == 0);
  int rank;       ///< of this thread, in 0..kSize - 1
  void* scratch;  ///< shared, 8 * kWarps bytes; a warp needs none

  __device__ void sync() const {
    if constexpr (kSize == kWarp) {
      __syncwarp();
    } else {
      __syncthreads();
    }
  }

  /// Whether it holds for any thread.
  __device__ bool any(bool holds) const {
    if constexpr (kSize == kWarp) {
      return __any_sync(kAllLanes, holds) != 0;
    } else {
      return __syncthreads_or(holds) != 0;
    }
  }

  /// Every thread gets the combination of all threads' values.
  template <typename T, typename Combine>
  __device__ T reduce(T value, Combine combine) const {
    value = combine_warp(value, combine);
    if constexpr (kSize == kWarp) {
      return value;
    } else {
      T* parts = static_cast<T*>(scratch);
      sync();  // what stood there may still be read
      if (rank % kWarp == 0) parts[rank / kWarp] = value;
      sync();
      T total = parts[rank % kWarps];
      for (int distance = kWarps / 2; distance > 0; distance /= 2) {
        total = combine(total, __shfl_xor_sync(kAllLanes, total, distance));
      }
      return total;
    }
  }
};

}  // namespace sluice::runtime::cuda
