#include "base/check.h"
#include "kernels/recurrent/cuda/persistent/arithmetic.h"
#include "kernels/recurrent/cuda/wide/pack_kernels.h"
#include "runtime/cuda/check.h"

namespace sluice::kernels::recurrent::cuda::wide {
namespace {

/// Which 16 bytes of a packing a thread writes: of rows of a warp and columns of a chunk.
struct Piece {
  int block, chunk, warp;  ///< chunk of the block's
  bool in_lines;
  int row, column;

  __device__ Piece(const PackWeights& args, int index) {
    constexpr int kOwnChunks = kStageChunks / 2, kStagePieces = kStageWeightBytes / 16;
    const int shared = max(0, args.stages - kRegisterStages), loaded = args.stages - shared;
    block = index / (args.stages * kStagePieces);
    int rest = index % (args.stages * kStagePieces);
    in_lines = rest >= loaded * kStagePieces;
    int stage, group, own;
    if (in_lines) {
      constexpr int kLinePieces = 8, kRows = 64;
      const int line = rest / kLinePieces % kRows;
      warp = line / 16;
      row = line % 16;
      // Where the swizzle puts them.
      column = (rest % kLinePieces ^ line % 8) * 8;
      rest /= kLinePieces * kRows;
      own = rest % kOwnChunks;
      group = rest / kOwnChunks % 2;
      stage = rest / kStageChunks;
    } else {
      // Of mma.sync's fragments: row lane / 4 and that 8 below, columns 2 (lane % 4) and + 1 of 16,
      // and those 8 further.
      constexpr int kSteps = kChunkUnits / 16;
      const int lane = rest % 32;
      row = lane / 4;
      column = rest / 128 % kSteps * 16 + lane % 4 * 2;
      warp = rest / 32 % 4;
      rest /= 128 * kSteps;
      own = rest % kOwnChunks;
      stage = rest / kOwnChunks % loaded;
      group = rest / kOwnChunks / loaded;
    }
    chunk = stage * kStageChunks + group * kOwnChunks + own;
  }
  __device__ int row_of(int i) const { return in_lines ? row : row + i / 2 % 2 * 8; }
  __device__ int column_of(int i) const { return column + (in_lines ? i : i % 2 + i / 4 * 8); }
};

/// Writes the piece: element(row, column) of the warp's rows and the chunk's columns.
template <typename Arithmetic, typename Element>
__device__ void store_piece(const PackWeights& args, int index, const Piece& piece,
                            const Element& element) {
  persistent::Scale scale;
  if constexpr (Arithmetic::kScaled) scale = persistent::Scale(*args.largest);
  typename Arithmetic::Factor values[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    store(values + i, element(piece.row_of(i), piece.column_of(i)) * scale.up);
  }
  uint4 bits;
  memcpy(&bits, values, sizeof(bits));
  static_cast<uint4*>(args.to)[index] = bits;
}

/// A row of the product is a gate of a unit: warps 2u and 2u + 1 have every second unit from u on,
/// row i gates 0 and 1, or 2 and 3.
template <typename Arithmetic>
__global__ void forward_kernel(const PackWeights args, int count) {
  const int index = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (index >= count) return;
  const Piece piece(args, index);
  store_piece<Arithmetic>(args, index, piece, [&](int row, int column) -> float {
    const int gate = piece.warp % 2 * 2 + row / 8;
    const int unit = piece.block * kUnits + row % 8 * 2 + piece.warp / 2;
    const int from = piece.chunk * kChunkUnits + column;
    if (gate >= args.gates || unit >= args.hidden || from >= args.hidden) return 0;
    return args.from[(static_cast<std::int64_t>(gate) * args.hidden + unit) * args.hidden + from];
  });
}

/// A row of the product is a unit: those of a warp are a block's.
template <typename Arithmetic>
__global__ void backward_kernel(const PackWeights args, int count) {
  const int index = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (index >= count) return;
  const Piece piece(args, index);
  store_piece<Arithmetic>(args, index, piece, [&](int row, int column) -> float {
    const int unit =
        piece.block / kBlocksOfChunk * kChunkUnits + piece.warp * kUnits + row % 8 * 2 + row / 8;
    const int chunk = piece.block % kBlocksOfChunk * args.stages * kStageChunks + piece.chunk;
    const int gate = chunk / args.chunks, from = chunk % args.chunks * kChunkUnits + column;
    if (gate >= args.gates || unit >= args.hidden || from >= args.hidden) return 0;
    return args.from[(static_cast<std::int64_t>(gate) * args.hidden + from) * args.hidden + unit];
  });
}

int pieces_of(const PackWeights& args) {
  return static_cast<int>(packed_bytes(args.chunks, args.stages) / 16);
}

constexpr int kPackThreads = 256;

unsigned blocks_for(int count) {
  return static_cast<unsigned>((count + kPackThreads - 1) / kPackThreads);
}

/// Calls `body` with how weights in that storage are packed.
template <typename Body>
void dispatch_packing(DType storage, Body&& body) {
  if (storage == DType::kFloat32) return body(persistent::InTf32());
  if (storage == DType::kBFloat16) return body(persistent::InBFloat16());
  SLUICE_ASSERT(storage == DType::kFloat16);
  body(persistent::InFloat16());
}

void check_pack() {
  runtime::cuda::check(cudaGetLastError(), "queue the packing of recurrent weights");
}

}  // namespace

void pack_forward(cudaStream_t stream, DType storage, const PackWeights& args) {
  const int count = pieces_of(args);
  dispatch_packing(storage, [&](auto arithmetic) {
    forward_kernel<decltype(arithmetic)>
        <<<blocks_for(count), kPackThreads, 0, stream>>>(args, count);
  });
  check_pack();
}

void pack_backward(cudaStream_t stream, DType storage, const PackWeights& args) {
  const int count = pieces_of(args);
  dispatch_packing(storage, [&](auto arithmetic) {
    backward_kernel<decltype(arithmetic)>
        <<<blocks_for(count), kPackThreads, 0, stream>>>(args, count);
  });
  check_pack();
}

}  // namespace sluice::kernels::recurrent::cuda::wide
