#include <algorithm>

#include "base/check.h"
#include "kernels/recurrent/cuda/persistent/arithmetic.h"
#include "kernels/recurrent/cuda/persistent/geometry.h"
#include "kernels/recurrent/cuda/persistent/pack_kernels.h"
#include "kernels/recurrent/cuda/persistent/packed_weights.h"
#include "runtime/cuda/check.h"

namespace sluice::kernels::recurrent::cuda::persistent {
namespace {

constexpr int kWarps = kThreads / 32;
constexpr int kFragmentBytes = 32 * 16;

/// One of the canonical matrix's elements, or zero: of that gate of a thread's unit, or of that
/// unit of several.
__device__ float element(const PackWeights& args, int which, int thread, int column) {
  const int units = thread_units(args.gates);
  const int gate = units == 1 ? which : 0, unit = units == 1 ? thread : thread * units + which;
  if (gate >= args.gates || unit >= args.hidden || column >= args.hidden) return 0;
  return args.from[(static_cast<std::int64_t>(gate) * args.hidden + unit) * args.hidden + column];
}

/// What one thread loads of fragment `index` of `count` at once, 4 x 2 elements as tensor_core.h
/// has them, for each part.
template <typename Arithmetic, typename Element>
__device__ void store_fragment(const PackWeights& args, int index, int count,
                               const Element& element) {
  using Factor = typename Arithmetic::Factor;
  Scale scale;
  if constexpr (Arithmetic::kScaled) scale = Scale(*args.largest);
  const int lane = threadIdx.x % 32;
  Factor* to = static_cast<Factor*>(args.to) + (static_cast<std::int64_t>(index) * 32 + lane) * 8;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    typename Arithmetic::Storage value;
    store(&value, element(i / 2 % 2, i / 4 * 8 + i % 2));
    const Factors<Arithmetic> factor(value, scale);
#pragma unroll
    for (int part = 0; part < Arithmetic::kParts; ++part) {
      to[static_cast<std::int64_t>(part) * count * 32 * 8 + i] = factor.parts[part];
    }
  }
}

__device__ int fragment_of_warp() {
  return static_cast<int>(blockIdx.x * kWarps + threadIdx.x / 32);
}

template <typename Arithmetic>
__global__ void forward_kernel(const PackWeights args) {
  const int count = forward_fragments(args.cluster, thread_units(args.gates));
  const int fragment = fragment_of_warp();
  if (fragment >= count) return;
  const int blocks = args.cluster.blocks, units = args.cluster.units, each = units / 16;
  const int lane = threadIdx.x % 32, pair = fragment % 2, sixteens = blocks * each;
  const int sixteen = fragment / 2 % sixteens, octet = fragment / 2 / sixteens;
  const int rank = octet / (units / 8 / thread_units(args.gates));
  const int thread = octet * 8 + lane / 4;
  const int column =
      (rank - sixteen / each + blocks) % blocks * units + sixteen % each * 16 + lane % 4 * 2;
  store_fragment<Arithmetic>(args, fragment, count, [&](int high_row, int depth) {
    return element(args, 2 * pair + high_row, thread, column + depth);
  });
}

template <typename Arithmetic>
__global__ void backward_kernel(const PackWeights args) {
  const int blocks = args.cluster.blocks, count = backward_fragments(blocks, args.gates);
  const int fragment = fragment_of_warp();
  if (fragment >= count) return;
  const int units = thread_units(args.gates);
  const int lane = threadIdx.x % 32, sixteens = 2 * args.gates * units, k = fragment % sixteens;
  const int bands = 2 * blocks * units, band = fragment / sixteens % bands;
  const int rank = fragment / sixteens / bands, slot = band / 2;
  const int to = (rank + slot / units) % blocks * kUnits + band % 2 * 16 + lane / 4;
  const int thread = rank * kUnits + k % 2 * 16 + lane % 4 * 2;
  store_fragment<Arithmetic>(args, fragment, count, [&](int high_row, int depth) {
    const int column = (to + 8 * high_row) * units + slot % units;
    return element(args, k / 2, thread + depth, column);
  });
}

/// `largest` starts as zero.
__global__ void largest_kernel(const float* from, std::int64_t count, float* largest) {
  // Those of positive numbers compare as the numbers do.
  unsigned bits = 0;
  for (std::int64_t i = blockIdx.x * kThreads + threadIdx.x; i < count;
       i += std::int64_t{gridDim.x} * kThreads) {
    bits = max(bits, __float_as_uint(fabsf(from[i])));
  }
  bits = __reduce_max_sync(~0u, bits);
  if (threadIdx.x % 32 == 0) atomicMax(reinterpret_cast<unsigned*>(largest), bits);
}

unsigned blocks_for(int fragments) {
  return static_cast<unsigned>((fragments + kWarps - 1) / kWarps);
}

/// Calls `body` with how weights in that storage are packed.
template <typename Body>
void dispatch_packing(DType storage, Body&& body) {
  if (storage == DType::kFloat32) return body(InFloat32());
  if (storage == DType::kBFloat16) return body(InBFloat16());
  SLUICE_ASSERT(storage == DType::kFloat16);
  body(InFloat16());
}

void check_queued() {
  runtime::cuda::check(cudaGetLastError(), "queue the packing of recurrent weights");
}

}  // namespace

std::int64_t packed_bytes(DType storage, std::int64_t gates, const Cluster& cluster) {
  const int parts = storage == DType::kFloat32 ? 2 : 1;
  return static_cast<std::int64_t>(parts) * kFragmentBytes *
         std::max(forward_fragments(cluster, thread_units(static_cast<int>(gates))),
                  backward_fragments(cluster.blocks, static_cast<int>(gates)));
}

void find_largest(cudaStream_t stream, const float* from, std::int64_t count, float* largest) {
  constexpr unsigned kBlocks = 128;
  runtime::cuda::check(cudaMemsetAsync(largest, 0, sizeof(float), stream),
                       "clear the largest factor of a recurrent product");
  largest_kernel<<<kBlocks, kThreads, 0, stream>>>(from, count, largest);
  runtime::cuda::check(cudaGetLastError(), "queue the search for the largest factor");
}

void pack_forward(cudaStream_t stream, DType storage, const PackWeights& args) {
  dispatch_packing(storage, [&](auto arithmetic) {
    forward_kernel<decltype(arithmetic)>
        <<<blocks_for(forward_fragments(args.cluster, thread_units(args.gates))), kThreads, 0,
           stream>>>(args);
  });
  check_queued();
}

void pack_backward(cudaStream_t stream, DType storage, const PackWeights& args) {
  dispatch_packing(storage, [&](auto arithmetic) {
    backward_kernel<decltype(arithmetic)>
        <<<blocks_for(backward_fragments(args.cluster.blocks, args.gates)), kThreads, 0, stream>>>(
            args);
  });
  check_queued();
}

}  // namespace sluice::kernels::recurrent::cuda::persistent
