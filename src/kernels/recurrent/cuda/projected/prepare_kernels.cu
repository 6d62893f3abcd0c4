#include <algorithm>

#include "kernels/recurrent/cuda/projected/prepare_kernels.h"
#include "kernels/recurrent/cuda/storage.h"
#include "runtime/cuda/check.h"

namespace sluice::kernels::recurrent::cuda::projected {
namespace {

constexpr int kBlock = 256;

/// Lane 4g + q of a factor [16, 16] has eight values: of rows g and g + 8, columns 2q and 2q + 1,
/// and the same of columns 2q + 8 and 2q + 9.
struct FactorPlace {
  int row, column;
  __device__ FactorPlace(int lane, int value)
      : row(lane / 4 + value / 2 % 2 * 8), column(lane % 4 * 2 + value % 2 + value / 4 * 8) {}
};

/// A thread makes a lane's eight values of a factor.
template <typename T>
__global__ void gates_kernel(const PackWeights args) {
  const int depths = (args.input_pieces + args.state_pieces) / 2;
  const std::int64_t index = blockIdx.x * static_cast<std::int64_t>(kBlock) + threadIdx.x;
  if (index >= static_cast<std::int64_t>(args.blocks) * depths * (kGatesBytes / 16)) return;
  const int lane = static_cast<int>(index % 32);
  std::int64_t rest = index / 32;
  const int band = static_cast<int>(rest % 2);
  rest /= 2;
  const int warp = static_cast<int>(rest % kUnitWarps);
  rest /= kUnitWarps;
  const int part = static_cast<int>(rest % kDepthParts);
  rest /= kDepthParts;
  const int depth = static_cast<int>(rest % depths), block = static_cast<int>(rest / depths);
  const int piece = 2 * depth + part;
  const bool of_input = piece < args.input_pieces;
  const int width = of_input ? args.input : args.output;
  const float* weights = of_input ? args.weight_ih : args.weight_hh;
  const int first = (of_input ? piece : piece - args.input_pieces) * 16;
  T* to = static_cast<T*>(args.gates) + index * 8;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const FactorPlace place(lane, i);
    const int unit = block * kUnits + warp * 8 + place.row % 8, gate = 2 * band + place.row / 8;
    const int column = first + place.column;
    const bool inside = unit < args.hidden && column < width;
    const std::int64_t row = static_cast<std::int64_t>(gate) * args.hidden + unit;
    store(to + i, inside ? weights[row * width + column] : 0.0f);
  }
}

template <typename T>
__global__ void projection_kernel(const PackWeights args) {
  const int pieces = args.blocks * (kUnits / 16);
  const std::int64_t index = blockIdx.x * static_cast<std::int64_t>(kBlock) + threadIdx.x;
  if (index >= static_cast<std::int64_t>(args.state_pieces) * pieces * 32) return;
  const int lane = static_cast<int>(index % 32), piece = static_cast<int>(index / 32 % pieces);
  const int band = static_cast<int>(index / 32 / pieces);
  T* to = static_cast<T*>(args.projection) + index * 8;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const FactorPlace place(lane, i);
    const int feature = band * 16 + place.row, unit = piece * 16 + place.column;
    const bool inside = feature < args.output && unit < args.hidden;
    const std::int64_t at = static_cast<std::int64_t>(feature) * args.hidden + unit;
    store(to + i, inside ? args.weight_hr[at] : 0.0f);
  }
}

__global__ void bias_kernel(const PackWeights args) {
  const int index = static_cast<int>(blockIdx.x) * kBlock + static_cast<int>(threadIdx.x);
  const int unit = index / 4, gate = index % 4;
  if (unit >= args.blocks * kUnits) return;
  const int at = gate * args.hidden + unit;
  args.bias[index] = unit < args.hidden ? args.bias_ih[at] + args.bias_hh[at] : 0.0f;
}

/// A thread makes a lane's four values of a piece.
__global__ void arrange_kernel(const Arrange args) {
  const std::int64_t first = blockIdx.x * static_cast<std::int64_t>(kBlock) + threadIdx.x;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kBlock;
  for (std::int64_t i = first; i < args.counter_words; i += stride) args.counters[i] = 0;
  for (int p = 0; p < args.count; ++p) {
    const Arrange::Part& part = args.parts[p];
    const std::int64_t pieces = static_cast<std::int64_t>(part.steps) * args.tiles * part.pieces;
    for (std::int64_t i = first; i < pieces * args.octets * 32; i += stride) {
      const int lane = static_cast<int>(i % 32), octet = static_cast<int>(i / 32 % args.octets);
      std::int64_t rest = i / 32 / args.octets;
      const int piece = static_cast<int>(rest % part.pieces);
      rest /= part.pieces;
      const int tile = static_cast<int>(rest % args.tiles);
      const std::int64_t step = rest / args.tiles;
      const int row = (tile * args.octets + octet) * 8 + lane / 4;
      const int feature = piece * 16 + lane % 4 * 2;
      std::uint16_t values[4];
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const int column = feature + k % 2 + k / 2 * 8;
        const bool inside = part.from && row < args.rows && column < part.width;
        const auto* from = static_cast<const std::uint16_t*>(part.from);
        values[k] = inside ? from[(step * args.rows + row) * part.width + column] : 0;
      }
      reinterpret_cast<uint2*>(part.to)[i] =
          make_uint2(values[0] | static_cast<std::uint32_t>(values[1]) << 16,
                     values[2] | static_cast<std::uint32_t>(values[3]) << 16);
    }
  }
}

unsigned blocks_for(std::int64_t count) {
  return static_cast<unsigned>((count + kBlock - 1) / kBlock);
}

}  // namespace

void pack_weights(cudaStream_t stream, DType storage, const PackWeights& args) {
  const std::int64_t depths = (args.input_pieces + args.state_pieces) / 2;
  const std::int64_t gates = args.blocks * depths * (kGatesBytes / 16);
  const std::int64_t projection =
      static_cast<std::int64_t>(args.state_pieces) * args.blocks * (kUnits / 16) * 32;
  dispatch_device_storage(storage, [&](auto tag) {
    using T = typename decltype(tag)::type;
    gates_kernel<T><<<blocks_for(gates), kBlock, 0, stream>>>(args);
    projection_kernel<T><<<blocks_for(projection), kBlock, 0, stream>>>(args);
  });
  bias_kernel<<<blocks_for(std::int64_t{args.blocks} * kUnits * 4), kBlock, 0, stream>>>(args);
  runtime::cuda::check(cudaGetLastError(), "queue the packing of projected layers");
}

void arrange(cudaStream_t stream, const Arrange& args) {
  std::int64_t most = args.counter_words;
  for (int p = 0; p < args.count; ++p) {
    const Arrange::Part& part = args.parts[p];
    most = std::max(most, std::int64_t{part.steps} * args.tiles * part.pieces * args.octets * 32);
  }
  constexpr unsigned kMostBlocks = 1024;
  arrange_kernel<<<std::min(kMostBlocks, blocks_for(most)), kBlock, 0, stream>>>(args);
  runtime::cuda::check(cudaGetLastError(), "queue the arrangement of a recurrent input");
}

}  // namespace sluice::kernels::recurrent::cuda::projected
