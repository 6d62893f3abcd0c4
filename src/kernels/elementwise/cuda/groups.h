#pragma once

#include <cstdint>

#include "runtime/cuda/launch.h"
#include "runtime/cuda/neighbours.h"

/// Loops over elements in groups of four, which are loaded and stored at once where the memory is
/// aligned to them.
namespace sluice::kernels::elementwise::cuda {

template <typename T>
using Group = runtime::cuda::Neighbours<T, 4>;

template <typename T>
bool is_aligned(const T* data) {
  return reinterpret_cast<std::uintptr_t>(data) % alignof(Group<T>) == 0;
}

/// The threads of a grid, each at its first number.
__device__ inline std::int64_t first_of_grid() {
  return std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
}
__device__ inline std::int64_t grid_stride() { return std::int64_t{gridDim.x} * blockDim.x; }

inline constexpr int kBlock = 256;

/// y[i] = op(x[i], y[i]); x may be y.
template <typename From, typename To, typename Op>
__global__ void __launch_bounds__(kBlock)
    pointwise_kernel(const From* x, To* y, std::int64_t count, bool aligned, Op op) {
  const std::int64_t groups = aligned ? count / 4 : 0;
  for (std::int64_t g = first_of_grid(); g < groups; g += grid_stride()) {
    const Group<From> from = reinterpret_cast<const Group<From>*>(x)[g];
    Group<To> to;
    if constexpr (Op::kReadsTarget) to = reinterpret_cast<Group<To>*>(y)[g];
#pragma unroll
    for (int i = 0; i < 4; ++i) to.at[i] = op(from.at[i], to.at[i]);
    runtime::cuda::store_neighbours(y + 4 * g, to);
  }
  for (std::int64_t i = 4 * groups + first_of_grid(); i < count; i += grid_stride()) {
    To to{};
    if constexpr (Op::kReadsTarget) to = y[i];
    y[i] = op(x[i], to);
  }
}

template <typename From, typename To, typename Op>
void pointwise(runtime::Stream& stream, std::string_view what, const From* x, To* y,
               std::int64_t count, Op op) {
  const bool aligned = is_aligned(x) && is_aligned(y);
  runtime::cuda::launch(stream, what, pointwise_kernel<From, To, Op>,
                        runtime::cuda::blocks_for(aligned ? (count + 3) / 4 : count, kBlock),
                        kBlock, 0, x, y, count, aligned, op);
}

}  // namespace sluice::kernels::elementwise::cuda
