#pragma once

#include <cstdint>

namespace sluice::kernels::recurrent::cuda {

/// Values beside each other that are read or written at once.
template <typename T, int kCount>
struct alignas(sizeof(T) * kCount < 16 ? sizeof(T) * kCount : 16) Neighbours {
  T at[kCount];
};

/// Whether an array begins, and its rows of `stride` values follow each other, where `count`
/// neighbours may be accessed at once.
template <typename T>
__host__ __device__ bool is_aligned(const T* data, std::int64_t stride, int count) {
  constexpr std::uintptr_t kMost = 16;
  const std::uintptr_t bytes = sizeof(T) * static_cast<std::uintptr_t>(count);
  return reinterpret_cast<std::uintptr_t>(data) % (bytes < kMost ? bytes : kMost) == 0 &&
         stride % count == 0;
}

}  // namespace sluice::kernels::recurrent::cuda
