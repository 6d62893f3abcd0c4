#include "kernels/recurrent/cuda/cell_grid.h"
#include "kernels/recurrent/cuda/neighbours.h"
#include "kernels/recurrent/cuda/sequence_kernels.h"

namespace sluice::kernels::recurrent::cuda {
namespace {

constexpr int kTile = 64, kFour = 4;
constexpr int kFours = kTile / kFour, kRowsAtOnce = 16;  ///< of a block's threads

/// The first `count` of four; kWhole: all or none.
template <bool kWhole, typename T>
__device__ Neighbours<T, kFour> read_four(const T* from, std::int64_t count) {
  Neighbours<T, kFour> four{};
  if constexpr (kWhole) {
    if (count > 0) four = *reinterpret_cast<const Neighbours<T, kFour>*>(from);
  } else {
    for (int k = 0; k < kFour && k < count; ++k) four.at[k] = from[k];
  }
  return four;
}
template <bool kWhole, typename T>
__device__ void write_four(T* to, const Neighbours<T, kFour>& four, std::int64_t count) {
  if constexpr (kWhole) {
    if (count > 0) *reinterpret_cast<Neighbours<T, kFour>*>(to) = four;
  } else {
    for (int k = 0; k < kFour && k < count; ++k) to[k] = four.at[k];
  }
}

/// A block has kTile x kTile values, which it reads once and transposes in shared memory, so that
/// all sides are read and written in whole lines. It waits for memory alone.
template <typename T, bool kWhole>
__global__ void pack_kernel(const PackMatrix args) {
  __shared__ T tile[kTile][kTile + 2];  // [column][row]
  const std::int64_t row0 = blockIdx.x * static_cast<std::int64_t>(kTile);
  const std::int64_t column0 = blockIdx.y * static_cast<std::int64_t>(kTile);
  const int four = static_cast<int>(threadIdx.x) * kFour;
#pragma unroll
  for (int r = 0; r < kTile; r += kRowsAtOnce) {
    const int i = r + static_cast<int>(threadIdx.y);
    const std::int64_t row = row0 + i, column = column0 + four;
    const std::int64_t count = row < args.rows ? args.columns - column : 0;
    const auto from = read_four<kWhole>(args.from + row * args.columns + column, count);
    Neighbours<T, kFour> to;
#pragma unroll
    for (int k = 0; k < kFour; ++k) store(to.at + k, from.at[k]);
    if (args.to) {
      write_four<kWhole>(static_cast<T*>(args.to) + row * args.to_stride + column, to, count);
    }
    if (!args.transposed) continue;
#pragma unroll
    for (int k = 0; k < kFour; ++k) tile[four + k][i] = to.at[k];
  }
  if (!args.transposed) return;
  __syncthreads();
#pragma unroll
  for (int c = 0; c < kTile; c += kRowsAtOnce) {
    const int j = c + static_cast<int>(threadIdx.y);
    const std::int64_t column = column0 + j, row = row0 + four;
    Neighbours<T, kFour> to;
#pragma unroll
    for (int k = 0; k < kFour; ++k) to.at[k] = tile[j][four + k];
    write_four<kWhole>(static_cast<T*>(args.transposed) + column * args.transposed_stride + row, to,
                       column < args.columns ? args.rows - row : 0);
  }
}

__global__ void bias_kernel(const PackBias args) {
  const std::int64_t i = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x;
  if (i >= args.gates * args.hidden) return;
  const std::int64_t last = (args.gates - 1) * args.hidden;
  if (args.bias_hn && i >= last) {
    args.to[i] = args.bias_ih[i];
    args.bias_hn[i - last] = args.bias_hh[i];
  } else {
    args.to[i] = args.bias_ih[i] + args.bias_hh[i];
  }
}

}  // namespace

void pack_matrix(cudaStream_t stream, DType storage, const PackMatrix& args) {
  const auto tiles = [](std::int64_t count) {
    return static_cast<unsigned>((count + kTile - 1) / kTile);
  };
  const dim3 grid(tiles(args.rows), tiles(args.columns));
  dispatch_device_storage(storage, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto aligned = [](const void* to, std::int64_t stride) {
      return is_aligned(static_cast<const T*>(to), stride, kFour);
    };
    const bool whole = is_aligned(args.from, args.columns, kFour) &&
                       aligned(args.to, args.to_stride) && args.rows % kFour == 0 &&
                       aligned(args.transposed, args.transposed_stride);
    const auto kernel = whole ? pack_kernel<T, true> : pack_kernel<T, false>;
    kernel<<<grid, dim3(kFours, kRowsAtOnce), 0, stream>>>(args);
  });
  runtime::cuda::check(cudaGetLastError(), "queue the packing of recurrent weights");
}

void pack_bias(cudaStream_t stream, const PackBias& args) {
  constexpr int kBlock = 256;
  const auto blocks = static_cast<unsigned>((args.gates * args.hidden + kBlock - 1) / kBlock);
  bias_kernel<<<blocks, kBlock, 0, stream>>>(args);
  runtime::cuda::check(cudaGetLastError(), "queue the packing of recurrent biases");
}

}  // namespace sluice::kernels::recurrent::cuda
