#include <algorithm>

#include "kernels/recurrent/cuda/cell_grid.h"
#include "kernels/recurrent/cuda/neighbours.h"
#include "kernels/recurrent/cuda/pack_kernels.h"

namespace sluice::kernels::recurrent::cuda {
namespace {

constexpr int kTile = 64, kFour = 4;
constexpr int kFours = kTile / kFour, kRowsAtOnce = 16;  ///< of a block's threads
constexpr int kBlock = kFours * kRowsAtOnce;

/// What travels as the argument of a launch.
struct PackPart {
  static constexpr int kMost = 16;
  PackMatrix matrices[kMost];
  bool whole[kMost];  ///< of a matrix: rows and columns come in aligned fours
  PackBias biases[kMost];
  /// Blocks before the end of each matrix, and after those of each bias.
  std::uint32_t matrix_ends[kMost], bias_ends[kMost];
};

std::int64_t tiles(std::int64_t count) { return (count + kTile - 1) / kTile; }

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
    if (count > 0) store_neighbours(to, four);
  } else {
    for (int k = 0; k < kFour && k < count; ++k) to[k] = four.at[k];
  }
}

template <typename T>
using PackTile = T[kTile][kTile + 2];  // [column][row]

/// kTile x kTile values, which are read once and transposed in shared memory, so that all sides are
/// read and written in whole lines. Tiles follow each other along what lies next to each other:
/// rows, or of a transpose columns.
template <typename T, bool kWhole>
__device__ void pack_tile(const PackMatrix& args, std::uint32_t index, PackTile<T>& tile) {
  const std::int64_t side = args.transposed ? args.rows : args.columns;
  const auto across = static_cast<std::uint32_t>((side + kTile - 1) / kTile);
  const std::int64_t along0 = std::int64_t{index % across} * kTile;
  const std::int64_t other0 = std::int64_t{index / across} * kTile;
  const std::int64_t row0 = args.transposed ? along0 : other0;
  const std::int64_t column0 = args.transposed ? other0 : along0;
  const int four = static_cast<int>(threadIdx.x) * kFour;
  const std::int64_t column = column0 + four;
  const auto count_of = [&](int i) { return row0 + i < args.rows ? args.columns - column : 0; };
  // All of a thread's are on their way before the first is written.
  Neighbours<float, kFour> from[kTile / kRowsAtOnce];
#pragma unroll
  for (int r = 0; r < kTile; r += kRowsAtOnce) {
    const int i = r + static_cast<int>(threadIdx.y);
    from[r / kRowsAtOnce] =
        read_four<kWhole>(args.from + (row0 + i) * args.columns + column, count_of(i));
  }
#pragma unroll
  for (int r = 0; r < kTile; r += kRowsAtOnce) {
    const int i = r + static_cast<int>(threadIdx.y);
    Neighbours<T, kFour> to;
#pragma unroll
    for (int k = 0; k < kFour; ++k) store(to.at + k, from[r / kRowsAtOnce].at[k]);
    if (args.to) {
      write_four<kWhole>(static_cast<T*>(args.to) + (row0 + i) * args.to_stride + column, to,
                         count_of(i));
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

__device__ void pack_number(const PackBias& args, std::int64_t i) {
  if (i >= args.gates * args.hidden) return;
  const std::int64_t last = (args.gates - 1) * args.hidden;
  if (args.bias_hn && i >= last) {
    args.to[i] = args.bias_ih[i];
    args.bias_hn[i - last] = args.bias_hh[i];
  } else {
    args.to[i] = args.bias_ih[i] + args.bias_hh[i];
  }
}

/// A block has a tile of a matrix or kBlock numbers of a bias. It waits for memory alone.
template <typename T>
__global__ void pack_kernel(const __grid_constant__ PackPart part) {
  __shared__ PackTile<T> tile;
  std::uint32_t begin = 0;
  for (int i = 0; i < PackPart::kMost; begin = part.matrix_ends[i++]) {
    if (blockIdx.x >= part.matrix_ends[i]) continue;
    const PackMatrix& matrix = part.matrices[i];
    return part.whole[i] ? pack_tile<T, true>(matrix, blockIdx.x - begin, tile)
                         : pack_tile<T, false>(matrix, blockIdx.x - begin, tile);
  }
  for (int i = 0; i < PackPart::kMost; begin = part.bias_ends[i++]) {
    if (blockIdx.x >= part.bias_ends[i]) continue;
    const auto thread = static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x);
    return pack_number(part.biases[i], (blockIdx.x - begin) * std::int64_t{kBlock} + thread);
  }
}

/// Whether both packings are written, and the matrix read, four values at a time.
template <typename T>
bool is_whole(const PackMatrix& matrix) {
  const auto aligned = [](const void* to, std::int64_t stride) {
    return is_aligned(static_cast<const T*>(to), stride, kFour);
  };
  return is_aligned(matrix.from, matrix.columns, kFour) && aligned(matrix.to, matrix.to_stride) &&
         matrix.rows % kFour == 0 && aligned(matrix.transposed, matrix.transposed_stride);
}

}  // namespace

void PackList::queue(cudaStream_t stream, DType storage) const {
  constexpr std::size_t kMost = PackPart::kMost;
  dispatch_device_storage(storage, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (std::size_t first = 0; first < std::max(matrices_.size(), biases_.size());
         first += kMost) {
      PackPart part{};
      std::int64_t blocks = 0;
      for (std::size_t i = 0; i < kMost; ++i) {
        if (first + i < matrices_.size()) {
          const PackMatrix& matrix = part.matrices[i] = matrices_[first + i];
          part.whole[i] = is_whole<T>(matrix);
          blocks += tiles(matrix.rows) * tiles(matrix.columns);
        }
        part.matrix_ends[i] = static_cast<std::uint32_t>(blocks);
      }
      for (std::size_t i = 0; i < kMost; ++i) {
        if (first + i < biases_.size()) {
          const PackBias& bias = part.biases[i] = biases_[first + i];
          blocks += (bias.gates * bias.hidden + kBlock - 1) / kBlock;
        }
        part.bias_ends[i] = static_cast<std::uint32_t>(blocks);
      }
      pack_kernel<T><<<static_cast<unsigned>(blocks), dim3(kFours, kRowsAtOnce), 0, stream>>>(part);
      runtime::cuda::check(cudaGetLastError(), "queue the packing of recurrent weights");
    }
  });
}

}  // namespace sluice::kernels::recurrent::cuda
