#include "base/check.h"
#include "kernels/recurrent/cuda/cluster_wgmma/pack_kernels.h"
#include "kernels/recurrent/cuda/cluster_wgmma/weight_scale.h"
#include "runtime/cuda/check.h"

namespace sluice::kernels::recurrent::cuda::cluster_wgmma {
namespace {

/// A thread packs 16 bytes: of mma.sync's fragments, row lane / 4 and that 8 below, columns 2 (lane
/// % 4) and + 1 of 16, and those 8 further.
template <typename Arithmetic>
__global__ void pack_kernel(const PackWeights args, int groups, int count) {
  const int index = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (index >= count) return;
  const int steps = kBlocks * groups * kGroupUnits / 16;
  const int lane = index % 32, warp = index / 32 % 4, step = index / 128 % steps;
  const int unit = index / 128 / steps * kGroupUnits + warp * 4 + lane / 8;
  persistent::Scale scale;
  if constexpr (Arithmetic::kScaled) scale = scale_of_weights(args.largest);
  typename Arithmetic::Factor values[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int gate = lane / 4 % 2 * 2 + i / 2 % 2;
    const int from = step * 16 + lane % 4 * 2 + i % 2 + i / 4 * 8;
    const bool exists = gate < args.gates && unit < args.hidden && from < args.hidden;
    const std::int64_t at =
        (static_cast<std::int64_t>(gate) * args.hidden + unit) * args.hidden + from;
    store(values + i, exists ? args.from[at] * scale.up : 0.0f);
  }
  uint4 bits;
  memcpy(&bits, values, sizeof(bits));
  static_cast<uint4*>(args.to)[index] = bits;
}

}  // namespace

void pack_forward(cudaStream_t stream, DType storage, const PackWeights& args) {
  constexpr int kThreads = 256;
  const int count = static_cast<int>(packed_bytes(args.hidden) / 16);
  const auto blocks = static_cast<unsigned>((count + kThreads - 1) / kThreads);
  const int groups = groups_for(args.hidden);
  if (storage == DType::kFloat32) {
    pack_kernel<persistent::InTf32><<<blocks, kThreads, 0, stream>>>(args, groups, count);
  } else if (storage == DType::kBFloat16) {
    pack_kernel<persistent::InBFloat16><<<blocks, kThreads, 0, stream>>>(args, groups, count);
  } else {
    SLUICE_ASSERT(storage == DType::kFloat16);
    pack_kernel<persistent::InFloat16><<<blocks, kThreads, 0, stream>>>(args, groups, count);
  }
  runtime::cuda::check(cudaGetLastError(), "queue the packing of recurrent weights");
}

}  // namespace sluice::kernels::recurrent::cuda::cluster_wgmma
