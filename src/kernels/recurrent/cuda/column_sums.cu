#include "kernels/recurrent/cuda/sequence_kernels.h"
#include "kernels/recurrent/cuda/storage.h"
#include "runtime/cuda/launch.h"

namespace sluice::kernels::recurrent::cuda {
namespace {

constexpr int kColumns = 32, kRows = 8;

std::int64_t parts_of(std::int64_t depth) {
  constexpr std::int64_t kDepth = 128;  // of a part, at least
  return std::clamp<std::int64_t>(depth / kDepth, 1, kColumnParts);
}

/// Each block sums its columns over one part of the depth.
template <typename T, typename Factor>
__global__ void part_kernel(const ColumnSums args) {
  __shared__ float sums[kRows][kColumns];
  const std::int64_t column = blockIdx.x * static_cast<std::int64_t>(kColumns) + threadIdx.x;
  const std::int64_t begin = args.depth * blockIdx.y / gridDim.y;
  const std::int64_t end = args.depth * (blockIdx.y + 1) / gridDim.y;
  float sum = 0;
  if (column < args.columns) {
    const T* values = static_cast<const T*>(args.values) + column;
#pragma unroll 8
    for (std::int64_t i = begin + threadIdx.y; i < end; i += kRows) {
      const float value = load(values + i * args.stride);
      const Factor* factor = static_cast<const Factor*>(args.factors) + i * args.columns + column;
      sum += args.factors ? value * load(factor) : value;
    }
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y > 0 || column >= args.columns) return;
  for (int i = 1; i < kRows; ++i) sum += sums[i][threadIdx.x];
  args.partial[blockIdx.y * args.columns + column] = sum;
}

__global__ void add_kernel(const ColumnSums args, const std::int64_t parts) {
  const std::int64_t column = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x;
  if (column >= args.columns) return;
  float sum = 0;
#pragma unroll 16
  for (std::int64_t i = 0; i < parts; ++i) sum += args.partial[i * args.columns + column];
  for (float* target : args.targets) {
    if (target) target[column] += sum;
  }
}

constexpr int kBlock = 256;

}  // namespace

void add_column_sums(cudaStream_t stream, DType storage, const ColumnSums& args) {
  const std::int64_t parts = parts_of(args.depth);
  const dim3 grid(static_cast<unsigned>((args.columns + kColumns - 1) / kColumns),
                  static_cast<unsigned>(parts));
  dispatch_device_storage(storage, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto kernel = args.stored_factors ? part_kernel<T, T> : part_kernel<T, float>;
    kernel<<<grid, dim3(kColumns, kRows), 0, stream>>>(args);
  });
  runtime::cuda::check(cudaGetLastError(), "queue the gradients of recurrent biases");
  add_kernel<<<runtime::cuda::blocks_for(args.columns, kBlock), kBlock, 0, stream>>>(args, parts);
  runtime::cuda::check(cudaGetLastError(), "queue the gradients of recurrent biases");
}

}  // namespace sluice::kernels::recurrent::cuda
