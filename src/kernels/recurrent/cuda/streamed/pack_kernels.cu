#include "kernels/recurrent/cuda/dispatch_storage.h"
#include "kernels/recurrent/cuda/streamed/pack_kernels.h"
#include "runtime/cuda/check.h"

namespace sluice::kernels::recurrent::cuda::streamed {
namespace {

/// Which 16 bytes of a packing a thread writes: of a slot's units, and columns of a chunk.
struct Piece {
  int block, chunk, slot, column;  ///< chunk of the block's, slot of the cluster's
  bool in_lines, odd;

  __device__ Piece(const Spread& spread, int index) {
    constexpr int kSteps = kChunkUnits / 16;
    const int pieces = static_cast<int>(spread.packed_bytes() / 16);
    block = index / pieces;
    int rest = index % pieces;
    in_lines = rest >= spread.registers() * kRegisterChunkBytes / 16;
    if (!in_lines) {
      // Of mma.sync's fragments: row lane / 4 and that 8 below, columns 2 (lane % 4) and + 1 of 16,
      // and those 8 further.
      const int lane = rest % 32, warp = rest / 32 % 4;
      column = rest / 128 % kSteps * 16 + lane % 4 * 2;
      rest /= 128 * kSteps;
      slot = rest % kProductGroups * kTileSlots + warp * 8 + lane / 4;
      odd = false;
      const int i = rest / kProductGroups;
      chunk = spread.others_before(i) + i;
      return;
    }
    rest -= spread.registers() * kRegisterChunkBytes / 16;
    const int others = spread.others() * (spread.weight_bytes() / 16);
    int line, half;
    if (rest < others) {
      const int other = rest / (spread.weight_bytes() / 16);
      rest %= spread.weight_bytes() / 16;
      line = rest / 8;
      half = line / (spread.half_weight_bytes() / 128);
      line %= spread.half_weight_bytes() / 128;
      slot = line / 16 * 8 + line % 8;
      odd = line % 16 >= 8;
      int registers = 0;
      while (registers < spread.registers() && spread.others_before(registers) <= other)
        ++registers;
      chunk = other + registers;
    } else {
      rest -= others;
      line = rest / 8 % 8;
      slot = kProductGroups * kTileSlots + line / 2;
      odd = line % 2 == 1;
      half = rest / 64 % 2;
      chunk = rest / 128;
    }
    // Where the swizzle puts them.
    column = half * kLineUnits + (rest % 8 ^ line % 8) * 8;
  }
  __device__ bool odd_of(int i) const { return in_lines ? odd : i / 2 % 2 == 1; }
  __device__ int column_of(int i) const { return column + (in_lines ? i : i % 2 + i / 4 * 8); }
};

template <typename T, bool kBackward>
__global__ void pack_kernel(const PackWeights args, int count) {
  const int index = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (index >= count) return;
  const Spread& spread = args.spread;
  const Piece piece(spread, index);
  const int rank = piece.block % spread.cluster;
  const int owner = piece.block - rank + piece.slot / spread.slots;
  const bool exists = piece.slot < spread.cluster * spread.slots;
  const int slot = piece.slot % spread.slots, chunk = rank * spread.depth + piece.chunk;
  const int gate = kBackward ? chunk / spread.chunks : slot / spread.pairs;
  const int first = (kBackward ? chunk % spread.chunks : chunk) * kChunkUnits;
  const int pair = owner * spread.units() + slot % spread.pairs * 2;
  alignas(16) T values[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const std::int64_t unit = pair + piece.odd_of(i), from = first + piece.column_of(i);
    float value = 0;
    if (exists && gate < args.gates && unit < args.hidden && from < args.hidden) {
      const std::int64_t row = kBackward ? from : unit, column = kBackward ? unit : from;
      value =
          args.from[(gate * static_cast<std::int64_t>(args.hidden) + row) * args.hidden + column];
    }
    store(values + i, value);
  }
  static_cast<uint4*>(args.to)[index] = *reinterpret_cast<const uint4*>(values);
}

template <bool kBackward>
void pack(cudaStream_t stream, DType storage, const PackWeights& args) {
  constexpr int kPackThreads = 256;
  const int count = static_cast<int>(packed_bytes(args.spread) / 16);
  dispatch_device_storage(storage, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (sizeof(T) == 2) {
      const auto blocks = static_cast<unsigned>((count + kPackThreads - 1) / kPackThreads);
      pack_kernel<T, kBackward><<<blocks, kPackThreads, 0, stream>>>(args, count);
    }
  });
  runtime::cuda::check(cudaGetLastError(), "queue the packing of recurrent weights");
}

}  // namespace

void pack_forward(cudaStream_t stream, DType storage, const PackWeights& args) {
  pack<false>(stream, storage, args);
}
void pack_backward(cudaStream_t stream, DType storage, const PackWeights& args) {
  pack<true>(stream, storage, args);
}

}  // namespace sluice::kernels::recurrent::cuda::streamed
