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

/// Threads that work on one thing together: a warp (kSize 32, any number of them in a block) or a
/// whole block. `combine` must not depend on the order of its two arguments.
template <int kSize>
struct Team {
  static_assert(kSize % kWarp == 0);
  int rank;       ///< of this thread, in 0..kSize - 1
  void* scratch;  ///< shared, 8 * kSize / 32 bytes; a warp needs none

  __device__ void sync() const {
    if constexpr (kSize == kWarp) {
      __syncwarp();
    } else {
      __syncthreads();
    }
  }

  /// Every thread gets the combination of all threads' values.
  template <typename T, typename Combine>
  __device__ T reduce(T value, Combine combine) const {
    for (int distance = kWarp / 2; distance > 0; distance /= 2) {
      value = combine(value, __shfl_xor_sync(kAllLanes, value, distance));
    }
    if constexpr (kSize == kWarp) {
      return value;
    } else {
      T* parts = static_cast<T*>(scratch);
      sync();  // what stood there may still be read
      if (rank % kWarp == 0) parts[rank / kWarp] = value;
      sync();
      T total = parts[0];
      for (int w = 1; w < kSize / kWarp; ++w) total = combine(total, parts[w]);
      return total;
    }
  }
};

}  // namespace sluice::runtime::cuda
