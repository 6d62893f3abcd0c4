#include "kernels/recurrent/cuda/cell_grid.h"
#include "kernels/recurrent/cuda/sequence_kernels.h"

namespace sluice::kernels::recurrent::cuda {
namespace {

constexpr int kTile = 32, kTileRows = 8;

/// Blocks of kTile x kTile, through shared memory if transposed so that both sides are read and
/// written in whole lines.
template <typename T>
__global__ void pack_kernel(const PackMatrix args) {
  __shared__ float tile[kTile][kTile + 1];
  const std::int64_t column0 = blockIdx.x * static_cast<std::int64_t>(kTile);
  T* to = static_cast<T*>(args.to);
  const std::int64_t tiles = (args.rows + kTile - 1) / kTile;
  for (std::int64_t index = blockIdx.y; index < tiles; index += gridDim.y) {
    const std::int64_t row0 = index * kTile;
    for (int i = threadIdx.y; i < kTile; i += kTileRows) {
      const std::int64_t row = row0 + i, column = column0 + threadIdx.x;
      if (row >= args.rows || column >= args.columns) continue;
      const float value = args.from[row * args.columns + column];
      if (args.transposed) {
        tile[i][threadIdx.x] = value;
      } else {
        store(to + row * args.to_stride + column, value);
      }
    }
    if (!args.transposed) continue;
    __syncthreads();
    for (int i = threadIdx.y; i < kTile; i += kTileRows) {
      const std::int64_t row = row0 + threadIdx.x, column = column0 + i;
      if (row >= args.rows || column >= args.columns) continue;
      store(to + column * args.to_stride + row, tile[threadIdx.x][i]);
    }
    __syncthreads();
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
  constexpr std::int64_t kMostTiles = 65535;
  const std::int64_t tiles = (args.rows + kTile - 1) / kTile;
  const dim3 grid(static_cast<unsigned>((args.columns + kTile - 1) / kTile),
                  static_cast<unsigned>(tiles < kMostTiles ? tiles : kMostTiles));
  dispatch_device_storage(storage, [&](auto tag) {
    using T = typename decltype(tag)::type;
    pack_kernel<T><<<grid, dim3(kTile, kTileRows), 0, stream>>>(args);
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
