#pragma once

#include <cstdint>

#include "runtime/cuda/neighbours.h"

namespace sluice::kernels::recurrent::cuda {

using runtime::cuda::Neighbours;
using runtime::cuda::store_neighbours;

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
