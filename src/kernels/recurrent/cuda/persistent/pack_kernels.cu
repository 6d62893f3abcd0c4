#include "kernels/recurrent/cuda/persistent/geometry.h"
#include "kernels/recurrent/cuda/persistent/pack_kernels.h"
#include "kernels/recurrent/cuda/storage.h"
#include "runtime/cuda/check.h"

namespace sluice::kernels::recurrent::cuda::persistent {
namespace {

constexpr int kWarps = kThreads / 32;

/// One of the canonical matrix's elements, or zero.
__device__ float element(const PackWeights& args, int gate, int unit, int column) {
  if (gate >= args.gates || unit >= args.hidden || column >= args.hidden) return 0;
  return args.from[(static_cast<std::int64_t>(gate) * args.hidden + unit) * args.hidden + column];
}

/// A fragment is what one thread loads at once: 4 x 2 elements as tensor_core.h has them.
template <typename T, typename Element>
__device__ void store_fragment(T* to, const Element& element) {
#pragma unroll
  for (int q = 0; q < 4; ++q) {
#pragma unroll
    for (int e = 0; e < 2; ++e) store(to + 2 * q + e, element(q % 2, q / 2 * 8 + e));
  }
}

/// [block][warp][slot][16 of its units][pair of gates][lane], as ForwardProduct loads them.
template <typename T>
__global__ void forward_kernel(const PackWeights args) {
  const int slots = args.blocks / 2, fragment = static_cast<int>(blockIdx.x) * 8 + threadIdx.x / 32;
  const int lane = threadIdx.x % 32, pair = fragment % 2, tile = fragment / 2 % 2;
  const int slot = fragment / 4 % slots, warp = fragment / 4 / slots % kWarps;
  const int rank = fragment / 4 / slots / kWarps;
  if (rank >= args.blocks) return;
  const int octet = warp % kOctets, distance = 2 * slot + warp / kOctets;
  const int unit = rank * kUnits + octet * 8 + lane / 4;
  const int column =
      (rank - distance + args.blocks) % args.blocks * kUnits + tile * 16 + lane % 4 * 2;
  T* to = static_cast<T*>(args.to) + (static_cast<std::int64_t>(fragment) * 32 + lane) * 8;
  store_fragment(to, [&](int high_row, int depth) {
    return element(args, 2 * pair + high_row, unit, column + depth);
  });
}

/// [block][warp][16 units][16 gates][lane], as BackwardProduct loads them.
template <typename T>
__global__ void backward_kernel(const PackWeights args) {
  const int bands = args.blocks / 4, depth_tiles = 2 * args.gates;
  const int fragment = static_cast<int>(blockIdx.x) * 8 + threadIdx.x / 32;
  const int lane = threadIdx.x % 32, k = fragment % depth_tiles;
  const int band = fragment / depth_tiles % (bands * kWarps);
  const int rank = fragment / depth_tiles / (bands * kWarps);
  if (rank >= args.blocks) return;
  const int to_block = (rank + band / 2) % args.blocks;
  const int column = to_block * kUnits + band % 2 * 16 + lane / 4;
  const int unit = rank * kUnits + k % 2 * 16 + lane % 4 * 2;
  T* to = static_cast<T*>(args.to) + (static_cast<std::int64_t>(fragment) * 32 + lane) * 8;
  store_fragment(to, [&](int high_row, int depth) {
    return element(args, k / 2, unit + depth, column + 8 * high_row);
  });
}

unsigned blocks_for(int fragments) { return static_cast<unsigned>((fragments + 7) / 8); }

}  // namespace

void pack_forward(cudaStream_t stream, DType storage, const PackWeights& args) {
  dispatch_device_storage(storage, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const unsigned blocks = blocks_for(args.blocks * kWarps * args.blocks / 2 * 4);
    forward_kernel<T><<<blocks, kThreads, 0, stream>>>(args);
  });
  runtime::cuda::check(cudaGetLastError(), "queue the packing of recurrent weights");
}

void pack_backward(cudaStream_t stream, DType storage, const PackWeights& args) {
  dispatch_device_storage(storage, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const unsigned blocks = blocks_for(args.blocks * args.blocks / 4 * kWarps * 2 * args.gates);
    backward_kernel<T><<<blocks, kThreads, 0, stream>>>(args);
  });
  runtime::cuda::check(cudaGetLastError(), "queue the packing of recurrent weights");
}

}  // namespace sluice::kernels::recurrent::cuda::persistent
