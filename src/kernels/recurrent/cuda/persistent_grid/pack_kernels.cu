#include "kernels/recurrent/cuda/dispatch_storage.h"
#include "kernels/recurrent/cuda/persistent_grid/geometry.h"
#include "kernels/recurrent/cuda/persistent_grid/pack_kernels.h"
#include "runtime/cuda/check.h"

namespace sluice::kernels::recurrent::cuda::persistent_grid {
namespace {

/// One of the canonical matrix's elements.
__device__ const float* element(const PackWeights& args, int gate, int unit, int column) {
  return args.from + (static_cast<std::int64_t>(gate) * args.hidden + unit) * args.hidden + column;
}

/// Neighbours in a row of the matrix, zero beyond it; eight at once where kWhole.
template <bool kWhole>
__device__ void read_octet(const PackWeights& args, int gate, int unit, int column,
                           float (&values)[kOctet]) {
  if (gate >= args.gates || unit >= args.hidden || column >= args.hidden) return;
  const float* from = element(args, gate, unit, column);
  if constexpr (kWhole) {
#pragma unroll
    for (int k = 0; k < kOctet; k += 4) {
      *reinterpret_cast<float4*>(values + k) = *reinterpret_cast<const float4*>(from + k);
    }
  } else {
    for (int k = 0; k < kOctet && column + k < args.hidden; ++k) values[k] = from[k];
  }
}

/// [block][warp][load][half of an octet][band][lane], as Product loads them: 8 elements, of two
/// rows four of the depth. A thread has both halves. A grid of (blocks, most_loads * bands).
template <typename T, bool kBackward, bool kWhole>
__global__ void pack_kernel(const PackWeights args) {
  const Residence& r = args.residence;
  const int block = static_cast<int>(blockIdx.x), lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int load = static_cast<int>(blockIdx.y) / r.bands, band = blockIdx.y % r.bands;
  const int part = block % r.cluster * kWarps + warp;
  const int octet = (part * r.loads + load) * 4 + lane % 4;
  const int octets = octets_of(args.hidden);
  float values[2][kOctet] = {};  // of rows g and g + 8
  if (load < r.loads) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int row = band * 16 + lane / 4 + i * 8;
      if constexpr (kBackward) {
        const int gate = octet / octets, unit = octet % octets * kOctet;
        const int column = block / r.cluster * r.cluster * r.units + row;
        if (row >= r.cluster * r.units || column >= args.hidden || gate >= args.gates) continue;
#pragma unroll
        for (int k = 0; k < kOctet; ++k) {
          if (unit + k < args.hidden) values[i][k] = *element(args, gate, unit + k, column);
        }
      } else {
        const int eight = row / kOctet, unit = eight / args.gates * kOctet + row % kOctet;
        if (unit >= r.units) continue;
        read_octet<kWhole>(args, eight % args.gates, block * r.units + unit, octet * kOctet,
                           values[i]);
      }
    }
  }
  uint4* to =
      static_cast<uint4*>(args.to) + lane +
      ((static_cast<std::int64_t>(block) * kWarps + warp) * r.most_loads + load) * 2 * r.bands * 32;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    alignas(16) T fragment[kOctet];
#pragma unroll
    for (int i = 0; i < kOctet; ++i) {
      store(fragment + i, values[i / 2 % 2][half * 4 + i / 4 * 2 + i % 2]);
    }
    to[(half * r.bands + band) * 32] = *reinterpret_cast<const uint4*>(fragment);
  }
}

/// What a row of a block's matrix multiplies of the depth, zero where there is nothing.
template <bool kBackward>
__device__ float weight(const PackWeights& args, int block, int row, int depth) {
  const Residence& r = args.residence;
  if constexpr (kBackward) {
    const int units = octets_of(args.hidden) * kOctet, gate = depth / units, unit = depth % units;
    const int column = block / r.cluster * r.cluster * r.units + row;
    if (row >= r.cluster * r.units || column >= args.hidden) return 0;
    return gate < args.gates && unit < args.hidden ? *element(args, gate, unit, column) : 0.0f;
  } else {
    const int eight = row / kOctet, of_block = eight / args.gates * kOctet + row % kOctet;
    const int unit = block * r.units + of_block;
    if (of_block >= r.units || unit >= args.hidden || depth >= args.hidden) return 0;
    return *element(args, eight % args.gates, unit, depth);
  }
}

/// [block][warp][load][row of a quarter][lane], as ProductInFloat32 loads them: four of the depth.
/// A thread has two rows. A grid of (blocks, most_loads * bands).
template <bool kBackward>
__global__ void pack_float32_kernel(const PackWeights args) {
  const Residence& r = args.residence;
  const int block = static_cast<int>(blockIdx.x), lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int load = static_cast<int>(blockIdx.y) / r.bands, band = blockIdx.y % r.bands;
  const int depth = ((block % r.cluster * kWarps + warp) * r.loads + load) * 32 + lane % 8 * 4;
  const int rows = 2 * r.bands;  // of a quarter
  float4* to =
      static_cast<float4*>(args.to) + lane +
      ((static_cast<std::int64_t>(block) * kWarps + warp) * r.most_loads + load) * rows * 32;
#pragma unroll
  for (int of_quarter = band * 2; of_quarter < band * 2 + 2; ++of_quarter) {
    const auto value = [&](int k) {
      if (load >= r.loads) return 0.0f;
      return weight<kBackward>(args, block, lane / 8 * rows + of_quarter, depth + k);
    };
    to[of_quarter * 32] = make_float4(value(0), value(1), value(2), value(3));
  }
}

template <bool kBackward>
void pack(cudaStream_t stream, DType storage, const PackWeights& args) {
  const Residence& r = args.residence;
  const dim3 grid(static_cast<unsigned>(r.blocks), static_cast<unsigned>(r.most_loads * r.bands));
  const bool whole = !kBackward && args.hidden % kOctet == 0 &&
                     reinterpret_cast<std::uintptr_t>(args.from) % sizeof(float4) == 0;
  dispatch_device_storage(storage, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (sizeof(T) == 4) {
      pack_float32_kernel<kBackward><<<grid, kThreads, 0, stream>>>(args);
    } else {
      const auto kernel =
          whole ? pack_kernel<T, kBackward, !kBackward> : pack_kernel<T, kBackward, false>;
      kernel<<<grid, kThreads, 0, stream>>>(args);
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

}  // namespace sluice::kernels::recurrent::cuda::persistent_grid
