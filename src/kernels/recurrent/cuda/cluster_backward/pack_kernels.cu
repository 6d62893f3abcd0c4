#include "base/check.h"
#include "kernels/recurrent/cuda/cluster_backward/pack_kernels.h"
#include "kernels/recurrent/cuda/storage.h"
#include "runtime/cuda/check.h"

namespace sluice::kernels::recurrent::cuda::cluster_backward {
namespace {

constexpr int kPackThreads = 256;

/// Element (row, column) of a factor is the weight of a gate of unit `from` for h of unit `to`.
struct WeightAt {
  int gate, from, to;

  template <typename Shape>
  __device__ static WeightAt of(int block, int group, int factor, int row, int column) {
    const int round = factor / Shape::kSteps, step = factor % Shape::kSteps;
    const int slot = group * 4 + row / kSliceUnits;
    const int slice = round * Shape::kSlicesOfRound + slot / Shape::kBlocks;
    const int inside = step % Shape::kChunkSteps;
    return {
        inside / 2,
        block * Shape::kUnits + step / Shape::kChunkSteps * kChunkUnits + inside % 2 * 16 + column,
        // Rows eight apart, which are one thread's, have neighbouring units.
        slot % Shape::kBlocks * Shape::kUnits + slice * kSliceUnits + row % 8 * 2 + row % 16 / 8};
  }
};

template <typename Shape>
constexpr int kPieces = Shape::kBlocks * 2 * Shape::kFactors * 128;  ///< of 16 bytes

template <typename T, typename Shape>
__global__ void pack_kernel(const PackWeights args) {
  const int index = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (index >= kPieces<Shape>) return;
  const int lane = index % 32, warp = index / 32 % 4, factor = index / 128 % Shape::kFactors;
  const int group = index / 128 / Shape::kFactors % 2, block = index / 256 / Shape::kFactors;
  T values[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int row = warp * 16 + lane / 4 + i / 2 % 2 * 8, column = lane % 4 * 2 + i % 2 + i / 4 * 8;
    const WeightAt at = WeightAt::of<Shape>(block, group, factor, row, column);
    float value = 0;
    if (at.from < args.hidden && at.to < args.hidden) {
      value = args.from[(static_cast<std::int64_t>(at.gate) * args.hidden + at.from) * args.hidden +
                        at.to];
    }
    store(values + i, value);
  }
  uint4 bits;
  memcpy(&bits, values, sizeof(bits));
  static_cast<uint4*>(args.to)[index] = bits;
}

template <typename Shape>
void pack_shape(cudaStream_t stream, DType storage, const PackWeights& args) {
  constexpr int kBlocks = (kPieces<Shape> + kPackThreads - 1) / kPackThreads;
  if (storage == DType::kBFloat16) {
    pack_kernel<__nv_bfloat16, Shape><<<kBlocks, kPackThreads, 0, stream>>>(args);
  } else {
    SLUICE_ASSERT(storage == DType::kFloat16);
    pack_kernel<__half, Shape><<<kBlocks, kPackThreads, 0, stream>>>(args);
  }
}

}  // namespace

std::int64_t packed_bytes(std::int64_t hidden) {
  const int pieces = hidden <= FourBlocks::kHidden ? kPieces<FourBlocks> : kPieces<EightBlocks>;
  return std::int64_t{pieces} * 16;
}

void pack_weights(cudaStream_t stream, DType storage, const PackWeights& args) {
  SLUICE_ASSERT(args.gates == 4);
  if (args.hidden <= FourBlocks::kHidden) {
    pack_shape<FourBlocks>(stream, storage, args);
  } else {
    pack_shape<EightBlocks>(stream, storage, args);
  }
  runtime::cuda::check(cudaGetLastError(), "queue the packing of recurrent weights");
}

}  // namespace sluice::kernels::recurrent::cuda::cluster_backward
