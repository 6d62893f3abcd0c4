#include "base/check.h"
#include "kernels/recurrent/cuda/cluster_backward/pack_kernels.h"
#include "kernels/recurrent/cuda/persistent/arithmetic.h"
#include "runtime/cuda/check.h"

namespace sluice::kernels::recurrent::cuda::cluster_backward {
namespace {

constexpr int kPackThreads = 256, kNormWarps = 32;

template <typename Shape>
__host__ __device__ float* norm_of(const PackWeights& args) {
  return reinterpret_cast<float*>(static_cast<uint4*>(args.to) + kPieces<Shape>);
}

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

template <typename Arithmetic, typename Shape>
__global__ void pack_kernel(const PackWeights args) {
  const int index = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (index >= kPieces<Shape>) return;
  const int lane = index % 32, warp = index / 32 % 4, factor = index / 128 % Shape::kFactors;
  const int group = index / 128 / Shape::kFactors % 2, block = index / 256 / Shape::kFactors;
  persistent::Scale scale;
  if constexpr (Arithmetic::kScaled) {
    scale = persistent::Scale(*args.largest);
    if (index == 0) *norm_of<Shape>(args) = 0;
  }
  typename Arithmetic::Factor values[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int row = warp * 16 + lane / 4 + i / 2 % 2 * 8, column = lane % 4 * 2 + i % 2 + i / 4 * 8;
    const WeightAt at = WeightAt::of<Shape>(block, group, factor, row, column);
    float value = 0;
    if (at.from < args.hidden && at.to < args.hidden) {
      value = args.from[(static_cast<std::int64_t>(at.gate) * args.hidden + at.from) * args.hidden +
                        at.to];
    }
    store(values + i, value * scale.up);
  }
  uint4 bits;
  memcpy(&bits, values, sizeof(bits));
  static_cast<uint4*>(args.to)[index] = bits;
}

/// Finds the norm, which is zero at first: of a block's 32 columns a warp sums up every so many
/// rows.
template <typename Shape>
__global__ void __launch_bounds__(32 * kNormWarps) norm_kernel(const PackWeights args) {
  __shared__ float parts[kNormWarps][32];
  const int lane = static_cast<int>(threadIdx.x), warp = static_cast<int>(threadIdx.y);
  const int column = static_cast<int>(blockIdx.x) * 32 + lane;
  float sum = 0;
  if (column < args.hidden) {
#pragma unroll 8
    for (int row = warp; row < 4 * args.hidden; row += kNormWarps) {
      sum += fabsf(args.from[static_cast<std::int64_t>(row) * args.hidden + column]);
    }
  }
  parts[warp][lane] = sum;
  __syncthreads();
  if (warp != 0) return;
  sum = 0;
  for (int i = 0; i < kNormWarps; ++i) sum += parts[i][lane];
  // Of numbers that aren't negative the bits are in the same order.
  const unsigned most = __reduce_max_sync(~0u, __float_as_uint(sum));
  if (lane == 0) atomicMax(reinterpret_cast<unsigned*>(norm_of<Shape>(args)), most);
}

template <typename Shape>
void pack_shape(cudaStream_t stream, DType storage, const PackWeights& args) {
  constexpr int kBlocks = (kPieces<Shape> + kPackThreads - 1) / kPackThreads;
  if (storage == DType::kFloat32) {
    pack_kernel<persistent::InTf32, Shape><<<kBlocks, kPackThreads, 0, stream>>>(args);
    const auto columns = static_cast<unsigned>((args.hidden + 31) / 32);
    norm_kernel<Shape><<<columns, dim3(32, kNormWarps), 0, stream>>>(args);
  } else if (storage == DType::kBFloat16) {
    pack_kernel<persistent::InBFloat16, Shape><<<kBlocks, kPackThreads, 0, stream>>>(args);
  } else {
    SLUICE_ASSERT(storage == DType::kFloat16);
    pack_kernel<persistent::InFloat16, Shape><<<kBlocks, kPackThreads, 0, stream>>>(args);
  }
}

}  // namespace

std::int64_t packed_bytes(std::int64_t hidden) {
  const int pieces = hidden <= FourBlocks::kHidden ? kPieces<FourBlocks> : kPieces<EightBlocks>;
  return std::int64_t{pieces + 1} * 16;
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
