#include "kernels/recurrent/cuda/persistent_grid/geometry.h"
#include "kernels/recurrent/cuda/persistent_grid/pack_kernels.h"
#include "kernels/recurrent/cuda/storage.h"
#include "runtime/cuda/check.h"

namespace sluice::kernels::recurrent::cuda::persistent_grid {
namespace {

/// One of the canonical matrix's elements, or zero.
__device__ float element(const PackWeights& args, int gate, int unit, int column) {
  if (gate >= args.gates || unit >= args.hidden || column >= args.hidden) return 0;
  return args.from[(static_cast<std::int64_t>(gate) * args.hidden + unit) * args.hidden + column];
}

/// [block][warp][load][half of an octet][band][lane], as Product loads them: 8 elements, of two
/// rows four of the depth.
template <typename T, bool kBackward>
__global__ void pack_kernel(const PackWeights args) {
  const Residence& r = args.residence;
  const int fragment = static_cast<int>(blockIdx.x) * kWarps + threadIdx.x / 32;
  const int lane = threadIdx.x % 32, band = fragment % r.bands, half = fragment / r.bands % 2;
  const int load = fragment / r.bands / 2 % r.most_loads;
  const int warp = fragment / r.bands / 2 / r.most_loads % kWarps;
  const int block = fragment / r.bands / 2 / r.most_loads / kWarps;
  if (block >= r.blocks) return;
  const int part = block % r.cluster * kWarps + warp;
  const int octet = (part * r.loads + load) * 4 + lane % 4;
  const int octets = octets_of(args.hidden);
  T* to = static_cast<T*>(args.to) + (static_cast<std::int64_t>(fragment) * 32 + lane) * 8;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int row = band * 16 + lane / 4 + i / 2 % 2 * 8;
    const int depth = half * 4 + i / 4 * 2 + i % 2;
    float value = 0;
    if (load < r.loads) {
      if (kBackward) {
        const int column = block / r.cluster * r.cluster * r.units + row;
        if (row < r.cluster * r.units) {
          value = element(args, octet / octets, octet % octets * kOctet + depth, column);
        }
      } else {
        value =
            element(args, row / r.units, block * r.units + row % r.units, octet * kOctet + depth);
      }
    }
    store(to + i, value);
  }
}

template <bool kBackward>
void pack(cudaStream_t stream, DType storage, const PackWeights& args) {
  const Residence& r = args.residence;
  const int blocks = r.blocks * r.most_loads * 2 * r.bands;
  dispatch_device_storage(storage, [&](auto tag) {
    using T = typename decltype(tag)::type;
    pack_kernel<T, kBackward><<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(args);
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

}  // namespace sluice::kernels::recurrent::cuda::persistent_grid
