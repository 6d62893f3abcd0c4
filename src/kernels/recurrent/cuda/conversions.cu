#include "kernels/recurrent/cuda/dispatch_storage.h"
#include "kernels/recurrent/cuda/sequence_kernels.h"
#include "runtime/cuda/launch.h"

namespace sluice::kernels::recurrent::cuda {
namespace {

constexpr int kBlock = 256;

/// Calls body(i) for all i < count, spread over the grid.
template <typename Body>
__device__ void for_elements(std::int64_t count, const Body& body) {
  const std::int64_t stride = gridDim.x * static_cast<std::int64_t>(blockDim.x);
  for (std::int64_t i = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x; i < count;
       i += stride) {
    body(i);
  }
}

template <typename T>
__global__ void widen_kernel(float* to, const T* from, std::int64_t count) {
  for_elements(count, [&](std::int64_t i) { to[i] = load(from + i); });
}

template <typename T>
__global__ void narrow_kernel(T* to, const float* from, std::int64_t count) {
  for_elements(count, [&](std::int64_t i) { store(to + i, from[i]); });
}

__global__ void pass_kernel() {}

__global__ void fill_kernel(std::int32_t* to, std::int32_t value, std::int64_t count) {
  for_elements(count, [&](std::int64_t i) { to[i] = value; });
}

void check_conversion() {
  runtime::cuda::check(cudaGetLastError(), "queue a conversion of a recurrent state");
}

unsigned blocks(std::int64_t count) { return runtime::cuda::blocks_for(count, kBlock); }

}  // namespace

void widen(cudaStream_t stream, DType storage, float* to, const void* from, std::int64_t count) {
  dispatch_device_storage(storage, [&](auto tag) {
    using T = typename decltype(tag)::type;
    widen_kernel<T><<<blocks(count), kBlock, 0, stream>>>(to, static_cast<const T*>(from), count);
  });
  check_conversion();
}

void narrow(cudaStream_t stream, DType storage, void* to, const float* from, std::int64_t count) {
  dispatch_device_storage(storage, [&](auto tag) {
    using T = typename decltype(tag)::type;
    narrow_kernel<T><<<blocks(count), kBlock, 0, stream>>>(static_cast<T*>(to), from, count);
  });
  check_conversion();
}

void pass(cudaStream_t stream) {
  pass_kernel<<<1, 1, 0, stream>>>();
  check_conversion();
}

void fill(cudaStream_t stream, std::int32_t* to, std::int32_t value, std::int64_t count) {
  fill_kernel<<<blocks(count), kBlock, 0, stream>>>(to, value, count);
  check_conversion();
}

}  // namespace sluice::kernels::recurrent::cuda
