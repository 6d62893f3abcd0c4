#include <algorithm>

#include "kernels/recurrent/cuda/cluster.h"
#include "kernels/recurrent/cuda/dispatch_storage.h"
#include "kernels/recurrent/cuda/projected/prepare_kernels.h"
#include "runtime/cuda/check.h"

namespace sluice::kernels::recurrent::cuda::projected {
namespace {

constexpr int kBlock = 256;

/// Threads make eight values each, of a row of a matrix of kMatrixBytes.
constexpr int kRowsOfPiece = kPieceBytes / 16;

template <typename T>
__global__ void gates_kernel(const PackWeights args) {
  const int depths = (args.input_pieces + args.state_pieces) / 2;
  const std::int64_t index = blockIdx.x * static_cast<std::int64_t>(kBlock) + threadIdx.x;
  if (index >= static_cast<std::int64_t>(args.blocks) * depths * (kGatesBytes / 16)) return;
  const int row = static_cast<int>(index % 64), half = static_cast<int>(index / 64 % 2);
  std::int64_t rest = index / 128;
  const int group = static_cast<int>(rest % kGroups);
  rest /= kGroups;
  const int piece = static_cast<int>(rest % (2 * depths));
  const int block = static_cast<int>(rest / (2 * depths));
  const int gate = row % 2 * 2 + row / 8 % 2;
  const int unit = block * kUnits + group * 16 + row / 16 * 4 + row % 8 / 2;
  const bool of_input = piece < args.input_pieces;
  const int width = of_input ? args.input : args.output;
  const float* weights = (of_input ? args.weight_ih : args.weight_hh) +
                         (static_cast<std::int64_t>(gate) * args.hidden + unit) * width;
  const int first = (of_input ? piece : piece - args.input_pieces) * 16 + half * 8;
  T* to = static_cast<T*>(args.gates) + index * 8;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const bool inside = unit < args.hidden && first + i < width;
    store(to + i, inside ? weights[first + i] : 0.0f);
  }
}

template <typename T>
__global__ void projection_kernel(const PackWeights args) {
  const int pieces = args.blocks * (kUnits / 16) / kCluster;
  const std::int64_t index = blockIdx.x * static_cast<std::int64_t>(kBlock) + threadIdx.x;
  if (index >= static_cast<std::int64_t>(args.state_pieces) * pieces * (kProjectionBytes / 16)) {
    return;
  }
  const int row = static_cast<int>(index % kClusterFeatures);
  const int half = static_cast<int>(index / kClusterFeatures % 2);
  const std::int64_t rest = index / (2 * kClusterFeatures);
  const int piece = static_cast<int>(rest % pieces), block = static_cast<int>(rest / pieces);
  const int feature = block / kCluster * kClusterFeatures + row;
  const int first = (block % kCluster * pieces + piece) * 16 + half * 8;
  const float* weights = args.weight_hr + static_cast<std::int64_t>(feature) * args.hidden;
  T* to = static_cast<T*>(args.projection) + index * 8;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const bool inside = feature < args.output && first + i < args.hidden;
    store(to + i, inside ? weights[first + i] : 0.0f);
  }
}

__global__ void bias_kernel(const PackWeights args) {
  const int index = static_cast<int>(blockIdx.x) * kBlock + static_cast<int>(threadIdx.x);
  const int unit = index / 4, gate = index % 4;
  if (unit >= args.blocks * kUnits) return;
  const int at = gate * args.hidden + unit;
  args.bias[index] = unit < args.hidden ? args.bias_ih[at] + args.bias_hh[at] : 0.0f;
}

/// A row of blocks each part. The next kernel's blocks find no room before these have ended, so
/// they count in 32 bits: divisions of 64 take longer than all else here.
__global__ void arrange_kernel(const __grid_constant__ Arrange args) {
  let_next_kernel_begin();
  const unsigned first = blockIdx.x * kBlock + threadIdx.x, stride = gridDim.x * kBlock;
  const auto words = static_cast<unsigned>(args.counter_words);
  for (unsigned i = first; blockIdx.y == 0 && i < words; i += stride) args.counters[i] = 0;
  const Arrange::Part& part = args.parts[blockIdx.y];
  const auto octets = static_cast<unsigned>(args.octets);
  const auto tiles = static_cast<unsigned>(args.tiles);
  const auto pieces = static_cast<unsigned>(part.pieces);
  const unsigned count = static_cast<unsigned>(part.steps) * tiles * pieces * octets * kRowsOfPiece;
  for (unsigned i = first; i < count; i += stride) {
    unsigned rest = i / 8;
    const unsigned octet = rest % octets;
    rest /= octets;
    const unsigned half = rest % 2;
    rest /= 2;
    const unsigned piece = rest % pieces;
    rest /= pieces;
    const unsigned tile = rest % tiles, step = rest / tiles;
    const int row = static_cast<int>((tile * octets + octet) * 8 + i % 8);
    const int feature = static_cast<int>(piece * 16 + half * 8);
    std::uint32_t values[4] = {};
    if (part.from && row < args.rows) {
      const auto* from = static_cast<const std::uint16_t*>(part.from) +
                         (static_cast<std::int64_t>(step) * args.rows + row) * part.width + feature;
#pragma unroll
      for (int k = 0; k < 8; ++k) {
        const std::uint32_t value = feature + k < part.width ? from[k] : 0;
        values[k / 2] |= value << (k % 2 * 16);
      }
    }
    reinterpret_cast<uint4*>(part.to)[i] = make_uint4(values[0], values[1], values[2], values[3]);
  }
}

unsigned blocks_for(std::int64_t count) {
  return static_cast<unsigned>((count + kBlock - 1) / kBlock);
}

}  // namespace

void pack_weights(cudaStream_t stream, DType storage, const PackWeights& args) {
  const std::int64_t depths = (args.input_pieces + args.state_pieces) / 2;
  const std::int64_t gates = args.blocks * depths * (kGatesBytes / 16);
  const std::int64_t projection = static_cast<std::int64_t>(args.state_pieces) * args.blocks *
                                  (kUnits / 16) / kCluster * (kProjectionBytes / 16);
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
    most = std::max(
        most, std::int64_t{part.steps} * args.tiles * part.pieces * args.octets * kRowsOfPiece);
  }
  constexpr unsigned kMostBlocks = 256;
  const dim3 grid(std::min(kMostBlocks, blocks_for(most)), static_cast<unsigned>(args.count));
  arrange_kernel<<<grid, kBlock, 0, stream>>>(args);
  runtime::cuda::check(cudaGetLastError(), "queue the arrangement of a recurrent input");
}

}  // namespace sluice::kernels::recurrent::cuda::projected
