#include "kernels/recurrent/cuda/dispatch_storage.h"
#include "kernels/recurrent/cuda/neighbours.h"
#include "kernels/recurrent/cuda/scaled_factors.h"
#include "kernels/recurrent/cuda/sequence_kernels.h"
#include "runtime/cuda/launch.h"

namespace sluice::kernels::recurrent::cuda {
namespace {

constexpr int kLanes = 32, kRows = 8;

std::int64_t parts_of(std::int64_t depth) {
  constexpr std::int64_t kDepth = 128;  // of a part, at least
  return std::clamp<std::int64_t>(depth / kDepth, 1, kColumnParts);
}

__device__ void store_in_targets(const ColumnSums& args, std::int64_t column, float sum) {
  const std::int64_t place =
      column % args.gates * (args.columns / args.gates) + column / args.gates;
  for (float* target : args.targets) {
    if (target) target[place] = args.accumulate ? target[place] + sum : sum;
  }
}

/// Each block sums its columns over one part of the depth; a thread has kWide neighbours. The sums
/// of the only part go to their targets at once.
template <typename T, typename Factor, int kWide>
__global__ void part_kernel(const ColumnSums args, const float* row_scales) {
  constexpr int kColumns = kLanes * kWide;
  __shared__ float sums[kRows][kColumns];
  const std::int64_t first = blockIdx.x * static_cast<std::int64_t>(kColumns);
  const int own = static_cast<int>(threadIdx.x) * kWide;
  const std::int64_t begin = args.depth * blockIdx.y / gridDim.y;
  const std::int64_t end = args.depth * (blockIdx.y + 1) / gridDim.y;
  float sum[kWide] = {};
  if (first + own < args.columns) {
    const T* values = static_cast<const T*>(args.values) + first + own;
    const Factor* factors = static_cast<const Factor*>(args.factors) + first + own;
#pragma unroll 4
    for (std::int64_t i = begin + threadIdx.y; i < end; i += kRows) {
      const auto value = *reinterpret_cast<const Neighbours<T, kWide>*>(values + i * args.stride);
      Neighbours<Factor, kWide> factor;
      if (args.factors) {
        factor = *reinterpret_cast<const Neighbours<Factor, kWide>*>(factors + i * args.columns);
      }
      const float row_scale = row_scales ? row_scales[i] : 1.0f;
#pragma unroll
      for (int k = 0; k < kWide; ++k) {
        const float number = load(value.at + k) * row_scale;
        sum[k] += args.factors ? number * load(factor.at + k) : number;
      }
    }
  }
#pragma unroll
  for (int k = 0; k < kWide; ++k) sums[threadIdx.y][own + k] = sum[k];
  __syncthreads();
  const int column = static_cast<int>(threadIdx.y) * kLanes + static_cast<int>(threadIdx.x);
  if (column >= kColumns || first + column >= args.columns) return;
  float total = sums[0][column];
#pragma unroll
  for (int i = 1; i < kRows; ++i) total += sums[i][column];
  if (gridDim.y == 1) return store_in_targets(args, first + column, total);
  args.partial[blockIdx.y * args.columns + first + column] = total;
}

template <typename T, int kWide>
void queue_parts(cudaStream_t stream, const ColumnSums& args, const float* row_scales,
                 std::int64_t parts) {
  constexpr int kColumns = kLanes * kWide;
  const dim3 grid(static_cast<unsigned>((args.columns + kColumns - 1) / kColumns),
                  static_cast<unsigned>(parts));
  const auto kernel = args.stored_factors ? part_kernel<T, T, kWide> : part_kernel<T, float, kWide>;
  kernel<<<grid, dim3(kLanes, kRows), 0, stream>>>(args, row_scales);
}

__global__ void add_kernel(const ColumnSums args, const std::int64_t parts) {
  const std::int64_t column = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x;
  if (column >= args.columns) return;
  float sum = 0;
#pragma unroll 16
  for (std::int64_t i = 0; i < parts; ++i) sum += args.partial[i * args.columns + column];
  store_in_targets(args, column, sum);
}

constexpr int kBlock = 256;

void queue_sums(cudaStream_t stream, DType storage, const ColumnSums& args,
                const float* row_scales) {
  const std::int64_t parts = parts_of(args.depth);
  dispatch_device_storage(storage, [&](auto tag) {
    using T = typename decltype(tag)::type;
    constexpr int kWide = 16 / sizeof(T);
    const bool factors =
        args.stored_factors
            ? is_aligned(static_cast<const T*>(args.factors), args.columns, kWide)
            : is_aligned(static_cast<const float*>(args.factors), args.columns, kWide);
    const bool whole =
        is_aligned(static_cast<const T*>(args.values), args.stride, kWide) && factors;
    whole ? queue_parts<T, kWide>(stream, args, row_scales, parts)
          : queue_parts<T, 1>(stream, args, row_scales, parts);
  });
  runtime::cuda::check(cudaGetLastError(), "queue the gradients of recurrent biases");
  if (parts == 1) return;
  add_kernel<<<runtime::cuda::blocks_for(args.columns, kBlock), kBlock, 0, stream>>>(args, parts);
  runtime::cuda::check(cudaGetLastError(), "queue the gradients of recurrent biases");
}

}  // namespace

void column_sums(cudaStream_t stream, DType storage, const ColumnSums& args) {
  queue_sums(stream, storage, args, nullptr);
}
void scaled_column_sums(cudaStream_t stream, const ColumnSums& args, const float* row_scales) {
  queue_sums(stream, DType::kFloat16, args, row_scales);
}

}  // namespace sluice::kernels::recurrent::cuda
