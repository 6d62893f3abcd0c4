#include <algorithm>

#include "kernels/recurrent/cuda/persistent/arithmetic.h"
#include "kernels/recurrent/cuda/scaled_factors.h"
#include "kernels/recurrent/cuda/scaled_row.h"
#include "runtime/cuda/launch.h"

namespace sluice::kernels::recurrent::cuda {
namespace {

constexpr int kLanes = 32, kWarps = 8;

/// Loads a group; one by one where an input isn't aligned.
__device__ FactorGroup load_group(const float* from) {
  FactorGroup group;
  if (is_aligned(from, 0, kFactorGroup)) return *reinterpret_cast<const FactorGroup*>(from);
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
      FactorGroup groups[kAhead] = {};
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
  for_groups(args,
             [&](std::int64_t, const FactorGroup& group) { bits = larger_bits(bits, group); });
  // Of all warps' maxima at one address most of the kernel's time would be atomics.
  __shared__ unsigned of_warps[kWarps];
  bits = __reduce_max_sync(~0u, bits);
  if (threadIdx.x == 0) of_warps[threadIdx.y] = bits;
  __syncthreads();
  if (threadIdx.x + threadIdx.y > 0) return;
  for (const unsigned of_warp : of_warps) bits = max(bits, of_warp);
  atomicMax(reinterpret_cast<unsigned*>(args.scales->largest + blockIdx.y), bits);
}

__global__ void scale_kernel(const ScaledFactors args) {
  FactorScales& scales = *args.scales;
  const ScaledFactor& factor = args.factors[blockIdx.y];
  const float up = persistent::Scale(scales.largest[blockIdx.y]).up;
  for_groups(args, [&](std::int64_t i, const FactorGroup& group) {
    store_scaled(static_cast<__half*>(factor.to) + i, group, up);
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

/// Of a row whose largest number lies between these, numbers are rounded to float16 as they are:
/// what has fewer bits than TF32's then, as it is less than 2^-14, errs by 2^-17 of the largest.
constexpr float kLeastUnscaled = 0x1p-8f, kMostUnscaled = 0x1p15f;

/// A warp takes a row at a time, and reads it twice: the second time it is near.
__global__ void row_factors_kernel(const RowFactors args) {
  constexpr int kStep = kLanes * kFactorGroup;
  for (std::int64_t line = blockIdx.x * kWarps + threadIdx.y; line < args.rows;
       line += gridDim.x * kWarps) {
    const float* from = args.from + line * args.width;
    unsigned bits = 0;
    for (std::int64_t k = threadIdx.x * kFactorGroup; k < args.width; k += kStep) {
      bits = larger_bits(bits, load_group(from + k));
    }
    const float largest = __uint_as_float(__reduce_max_sync(~0u, bits));
    const bool as_is = largest == 0 || (largest >= kLeastUnscaled && largest < kMostUnscaled);
    const persistent::Scale scale = as_is ? persistent::Scale() : persistent::Scale(largest);
    for (std::int64_t k = threadIdx.x * kFactorGroup; k < args.width; k += kStep) {
      const FactorGroup group = load_group(from + k);
      store_scaled(static_cast<__half*>(args.to) + line * args.width + k, group, scale.up);
    }
    if (threadIdx.x == 0) args.scales[line] = scale.down;
  }
}

constexpr int kStateWarps = 32;

/// A block has a row, which it reads twice: the second time it is near.
__global__ void __launch_bounds__(kLanes* kStateWarps) states_kernel(const RowFactors args) {
  constexpr int kStep = kLanes * kStateWarps * kFactorGroup;
  const std::int64_t begin = blockIdx.x * args.width;
  const int first = (static_cast<int>(threadIdx.y) * kLanes + threadIdx.x) * kFactorGroup;
  const auto load = [&](std::int64_t k) {
    return args.from ? load_group(args.from + begin + k) : FactorGroup{};
  };
  unsigned bits = __float_as_uint(1.0f);
  for (std::int64_t k = first; k < args.width; k += kStep) {
    bits = larger_bits(bits, load(k));
  }
  bits = largest_of_block(bits, threadIdx.y, threadIdx.x);
  const persistent::Scale scale(__uint_as_float(bits));
  for (std::int64_t k = first; k < args.width; k += kStep) {
    const FactorGroup group = load(k);
    store_scaled(static_cast<__half*>(args.to) + begin + k, group, scale.up);
  }
  if (first == 0) args.scales[blockIdx.x] = scale.down;
}

/// A warp takes a line at a time.
__global__ void rows_kernel(const ScaledRows args) {
  constexpr int kWide = 4;
  const bool aligned = is_aligned(args.values, args.width, kWide);
  for (std::int64_t i = blockIdx.x * kWarps + threadIdx.y; i < args.steps * args.rows;
       i += gridDim.x * kWarps) {
    const std::int64_t line = i / args.rows * args.step_rows + i % args.rows;
    const float scale = args.scales[line];
    if (scale == 1) continue;
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

void scale_row_factors(cudaStream_t stream, const RowFactors& args) {
  row_factors_kernel<<<blocks_for(args.rows), dim3(kLanes, kWarps), 0, stream>>>(args);
  runtime::cuda::check(cudaGetLastError(), "queue the scaling of a product's rows");
}

void scale_states(cudaStream_t stream, const RowFactors& args) {
  const dim3 block(kLanes, kStateWarps);
  states_kernel<<<static_cast<unsigned>(args.rows), block, 0, stream>>>(args);
  runtime::cuda::check(cudaGetLastError(), "queue the scaling of recurrent states");
}

void scale_rows(cudaStream_t stream, const ScaledRows& args) {
  rows_kernel<<<blocks_for(args.steps * args.rows), dim3(kLanes, kWarps), 0, stream>>>(args);
  runtime::cuda::check(cudaGetLastError(), "queue the scaling of a product's rows");
}

}  // namespace sluice::kernels::recurrent::cuda
