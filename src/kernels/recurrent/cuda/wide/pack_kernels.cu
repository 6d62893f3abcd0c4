#include "kernels/recurrent/cuda/storage.h"
#include "kernels/recurrent/cuda/wide/pack_kernels.h"
#include "runtime/cuda/check.h"

namespace sluice::kernels::recurrent::cuda::wide {
namespace {

/// Which part of a packing [block][warpgroup][step of depth][warp][lane] a thread writes: of a
/// warp's 16 rows of the product row lane / 4 and that 8 below, of 16 columns of depth column 2
/// (lane % 4) and + 1, and those 8 further.
struct Fragment {
  int block, group, chunk, column, warp, lane;  ///< chunk of the block's, and column in it

  __device__ Fragment(const PackWeights& args, int index) {
    constexpr int kOwnChunks = kStageChunks / 2, kSteps = kChunkUnits / 16;
    lane = index % 32;
    warp = index / 32 % 4;
    int rest = index / 128;
    column = rest % kSteps * 16;
    rest /= kSteps;
    const int own = rest % kOwnChunks;
    rest /= kOwnChunks;
    const int stage = rest % args.stages;
    rest /= args.stages;
    group = rest % 2;
    block = rest / 2;
    chunk = stage * kStageChunks + group * kOwnChunks + own;
  }
};

/// Writes the fragment: element(row, column) of the warp's rows and the chunk's columns.
template <typename T, typename Element>
__device__ void store_fragment(const PackWeights& args, int index, const Fragment& fragment,
                               const Element& element) {
  T values[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int row = fragment.lane / 4 + i / 2 % 2 * 8;
    store(values + i, element(row, fragment.column + fragment.lane % 4 * 2 + i % 2 + i / 4 * 8));
  }
  uint4 bits;
  memcpy(&bits, values, sizeof(bits));
  static_cast<uint4*>(args.to)[index] = bits;
}

/// A row of the product is a gate of a unit: warps 2u and 2u + 1 have every second unit from u on,
/// row i gates 0 and 1, or 2 and 3.
template <typename T>
__global__ void forward_kernel(const PackWeights args, int count) {
  const int index = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (index >= count) return;
  const Fragment fragment(args, index);
  store_fragment<T>(args, index, fragment, [&](int row, int column) -> float {
    const int gate = fragment.warp % 2 * 2 + row / 8;
    const int unit = fragment.block * kUnits + row % 8 * 2 + fragment.warp / 2;
    const int from = fragment.chunk * kChunkUnits + column;
    if (gate >= args.gates || unit >= args.hidden || from >= args.hidden) return 0;
    return args.from[(static_cast<std::int64_t>(gate) * args.hidden + unit) * args.hidden + from];
  });
}

/// A row of the product is a unit: those of a warp are a block's.
template <typename T>
__global__ void backward_kernel(const PackWeights args, int count) {
  const int index = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (index >= count) return;
  const Fragment fragment(args, index);
  store_fragment<T>(args, index, fragment, [&](int row, int column) -> float {
    const int unit = fragment.block / kBlocksOfChunk * kChunkUnits + fragment.warp * kUnits +
                     row % 8 * 2 + row / 8;
    const int chunk = fragment.block % kBlocksOfChunk * args.stages * kStageChunks + fragment.chunk;
    const int gate = chunk / args.chunks, from = chunk % args.chunks * kChunkUnits + column;
    if (gate >= args.gates || unit >= args.hidden || from >= args.hidden) return 0;
    return args.from[(static_cast<std::int64_t>(gate) * args.hidden + from) * args.hidden + unit];
  });
}

int fragments_of(const PackWeights& args) {
  return static_cast<int>(packed_bytes(args.chunks, args.stages) / 16);
}

constexpr int kPackThreads = 256;

unsigned blocks_for(int count) {
  return static_cast<unsigned>((count + kPackThreads - 1) / kPackThreads);
}

void check_pack() {
  runtime::cuda::check(cudaGetLastError(), "queue the packing of recurrent weights");
}

}  // namespace

void pack_forward(cudaStream_t stream, DType storage, const PackWeights& args) {
  const int count = fragments_of(args);
  dispatch_device_storage(storage, [&](auto tag) {
    using T = typename decltype(tag)::type;
    forward_kernel<T><<<blocks_for(count), kPackThreads, 0, stream>>>(args, count);
  });
  check_pack();
}

void pack_backward(cudaStream_t stream, DType storage, const PackWeights& args) {
  const int count = fragments_of(args);
  dispatch_device_storage(storage, [&](auto tag) {
    using T = typename decltype(tag)::type;
    backward_kernel<T><<<blocks_for(count), kPackThreads, 0, stream>>>(args, count);
  });
  check_pack();
}

}  // namespace sluice::kernels::recurrent::cuda::wide
