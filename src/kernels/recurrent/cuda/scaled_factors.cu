#include <algorithm>

#include "kernels/recurrent/cuda/neighbours.h"
#include "kernels/recurrent/cuda/persistent/arithmetic.h"
#include "kernels/recurrent/cuda/scaled_factors.h"
#include "runtime/cuda/launch.h"

namespace sluice::kernels::recurrent::cuda {
namespace {

constexpr int kLanes = 32, kWarps = 8;

using Group = Neighbours<float, kFactorGroup>;
using ScaledGroup = Neighbours<__half, kFactorGroup>;

/// Loads a group; one by one where an input isn't aligned.
__device__ Group load_group(const float* from) {
  Group group;
  if (is_aligned(from, 0, kFactorGroup)) return *reinterpret_cast<const Group*>(from);
#pragma unroll
  for (int k = 0; k < kFactorGroup; ++k) group.at[k] = from[k];
  return group;
}

/// Calls body(i, group) for each group of this block's factor, which begins at number i; with zeros
/// past a row's end, and times the row's scale. A warp takes a line at a time, and several groups
/// of it are on their way.
template <typename Body>
__device__ void for_groups(const ScaledFactors& args, const Body& body) {
  constexpr int kAhead = 4, kStep = kLanes * kFactorGroup;
  const ScaledFactor& factor = args.factors[blockIdx.y];
  for (std::int64_t line = blockIdx.x * kWarps + threadIdx.y; line < args.depth;
       line += gridDim.x * kWarps) {
    const bool counts = !factor.ends || args.lengths == nullptr ||
                        line / args.rows < args.lengths[line % args.rows];
    const float row_scale = args.row_scales ? args.row_scales[line] : 1.0f;
    const std::int64_t begin = line * factor.width, end = begin + factor.width;
    std::int64_t first = begin + threadIdx.x * kFactorGroup;
    for (; first < end; first += kAhead * kStep) {
      Group groups[kAhead] = {};
#pragma unroll
      for (int k = 0; k < kAhead; ++k) {
        if (counts && first + k * kStep < end)
          groups[k] = load_group(factor.from + first + k * kStep);
      }
#pragma unroll
      for (int k = 0; k < kAhead; ++k) {
        if (first + k * kStep >= end) continue;
#pragma unroll
        for (float& number : groups[k].at) number *= row_scale;
        body(first + k * kStep, groups[k]);
      }
    }
  }
}

/// `largest` is zero at first.
__global__ void largest_kernel(const ScaledFactors args) {
  unsigned bits = 0;
  for_groups(args, [&](std::int64_t, const Group& group) {
#pragma unroll
    for (int k = 0; k < kFactorGroup; ++k) {
      // Bits of positive numbers compare as the numbers do.
      bits = max(bits, __float_as_uint(fabsf(group.at[k])));
    }
  });
  bits = __reduce_max_sync(~0u, bits);
  if (threadIdx.x == 0) {
    atomicMax(reinterpret_cast<unsigned*>(args.scales->largest + blockIdx.y), bits);
  }
}

__global__ void scale_kernel(const ScaledFactors args) {
  FactorScales& scales = *args.scales;
  const ScaledFactor& factor = args.factors[blockIdx.y];
  const float up = persistent::Scale(scales.largest[blockIdx.y]).up;
  for_groups(args, [&](std::int64_t i, const Group& group) {
    ScaledGroup scaled;
#pragma unroll
    for (int k = 0; k < kFactorGroup; ++k) store(scaled.at + k, group.at[k] * up);
    *reinterpret_cast<ScaledGroup*>(static_cast<__half*>(factor.to) + i) = scaled;
  });
  if (blockIdx.x + blockIdx.y + threadIdx.x + threadIdx.y > 0) return;
  for (int i = 0; i < args.product_count; ++i) {
    const auto [left, right] = args.products[i];
    scales.alphas[i] = persistent::Scale(scales.largest[right]).down;
    if (left != ScaledFactors::kRowByRow) {
      scales.alphas[i] *= persistent::Scale(scales.largest[left]).down;
    }
  }
  scales.one = 1;
  scales.zero = 0;
}

/// A warp takes a line at a time.
__global__ void rows_kernel(const ScaledRows args) {
  constexpr int kWide = 4;
  const bool aligned = is_aligned(args.values, args.width, kWide);
  for (std::int64_t i = blockIdx.x * kWarps + threadIdx.y; i < args.steps * args.rows;
       i += gridDim.x * kWarps) {
    const std::int64_t line = i / args.rows * args.step_rows + i % args.rows;
    const float scale = args.scales[line];
    float* row = args.values + line * args.width;
    for (std::int64_t k = threadIdx.x * kWide; k < args.width; k += kLanes * kWide) {
      if (aligned) {
        auto& four = *reinterpret_cast<float4*>(row + k);
        four = make_float4(four.x * scale, four.y * scale, four.z * scale, four.w * scale);
      } else {
#pragma unroll
        for (int j = 0; j < kWide; ++j) row[k + j] *= scale;
      }
    }
  }
}

constexpr std::int64_t kMostBlocks = 1024;
unsigned blocks_for(std::int64_t depth) {
  return static_cast<unsigned>(std::min(kMostBlocks, (depth + kWarps - 1) / kWarps));
}

}  // namespace

void scale_factors(cudaStream_t stream, const ScaledFactors& args) {
  const dim3 grid(blocks_for(args.depth), static_cast<unsigned>(args.count));
  const dim3 block(kLanes, kWarps);
  runtime::cuda::check(
      cudaMemsetAsync(args.scales->largest, 0, sizeof(args.scales->largest), stream),
      "clear the largest factors of a product");
  largest_kernel<<<grid, block, 0, stream>>>(args);
  scale_kernel<<<grid, block, 0, stream>>>(args);
  runtime::cuda::check(cudaGetLastError(), "queue the scaling of a product's factors");
}

void scale_rows(cudaStream_t stream, const ScaledRows& args) {
  rows_kernel<<<blocks_for(args.steps * args.rows), dim3(kLanes, kWarps), 0, stream>>>(args);
  runtime::cuda::check(cudaGetLastError(), "queue the scaling of a product's rows");
}

}  // namespace sluice::kernels::recurrent::cuda
