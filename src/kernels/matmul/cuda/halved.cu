#include <cuda_fp16.h>

#include "kernels/matmul/cuda/halved.h"
#include "runtime/cuda/launch.h"
#include "runtime/cuda/neighbours.h"
#include "runtime/cuda/scale.h"

namespace sluice::kernels::matmul::cuda {
namespace {

constexpr int kBlock = 256;
constexpr int kGroup = 8;  ///< numbers that a thread takes at a time

using Wide = runtime::cuda::Neighbours<float, kGroup>;
using Half = runtime::cuda::Neighbours<__half, kGroup>;

/// Calls body(i, numbers) for this thread's groups; zeros stand beyond the last number. Several
/// groups are on their way at once.
template <typename Body>
__device__ void for_groups(const float* x, std::int64_t count, bool aligned, const Body& body) {
  constexpr int kAhead = 4;
  const std::int64_t stride = std::int64_t{gridDim.x} * kBlock * kGroup;
  std::int64_t i = (std::int64_t{blockIdx.x} * kBlock + threadIdx.x) * kGroup;
  for (; i < count; i += kAhead * stride) {
    Wide groups[kAhead] = {};
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      const std::int64_t first = i + k * stride;
      if (aligned && first + kGroup <= count) {
        groups[k] = *reinterpret_cast<const Wide*>(x + first);
      } else {
        for (int j = 0; j < kGroup && first + j < count; ++j) groups[k].at[j] = x[first + j];
      }
    }
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      if (i + k * stride < count) body(i + k * stride, groups[k]);
    }
  }
}

/// The largest magnitude to scale[1], which is zero at first. Bits of positive numbers compare as
/// the numbers do; NaN is the largest of all.
__global__ void __launch_bounds__(kBlock)
    largest_kernel(const float* x, std::int64_t count, bool aligned, float* scale) {
  unsigned bits = 0;
  for_groups(x, count, aligned, [&](std::int64_t, const Wide& numbers) {
    for (const float number : numbers.at) bits = max(bits, __float_as_uint(fabsf(number)));
  });
  bits = __reduce_max_sync(~0u, bits);
  if (threadIdx.x % 32 == 0) atomicMax(reinterpret_cast<unsigned*>(scale + 1), bits);
}

__global__ void __launch_bounds__(kBlock)
    halve_kernel(const float* x, std::int64_t count, bool aligned, __half* halved, float* scale) {
  const runtime::cuda::Scale power(scale[1]);
  for_groups(x, count, aligned, [&](std::int64_t first, const Wide& numbers) {
    Half group;
#pragma unroll
    for (int j = 0; j < kGroup; ++j) group.at[j] = __float2half_rn(numbers.at[j] * power.up);
    if (aligned && first + kGroup <= count) {
      runtime::cuda::store_neighbours(halved + first, group);
    } else {
      for (int j = 0; j < kGroup && first + j < count; ++j) halved[first + j] = group.at[j];
    }
  });
  if (blockIdx.x == 0 && threadIdx.x == 0) scale[0] = power.down;
}

struct Alpha {
  const float *left, *right;  ///< or null
  const double* factor;       ///< or null
  double times;
  float* alpha;
};
struct Alphas {
  Alpha at[kMostAlphas];
};

__global__ void alphas_kernel(Alphas all) {
  const Alpha& job = all.at[threadIdx.x];
  double alpha = job.times;
  if (job.left != nullptr) alpha *= static_cast<double>(*job.left);
  if (job.right != nullptr) alpha *= static_cast<double>(*job.right);
  if (job.factor != nullptr) alpha *= *job.factor;
  job.alpha[0] = static_cast<float>(alpha);
  job.alpha[1] = 0;
  job.alpha[2] = 1;
}

bool is_aligned(const void* data) { return reinterpret_cast<std::uintptr_t>(data) % 16 == 0; }

}  // namespace

void halve(const Context& context, const HalveArgs& args) {
  constexpr std::int64_t kMostBlocks = 2048;  // that fill a GPU
  const auto* x = args.x.data_as<const float>();
  auto* halved = static_cast<__half*>(args.halved.data());
  auto* scale = args.scale.data_as<float>();
  const std::int64_t count = args.x.element_count();
  const std::int64_t groups = (count + kGroup - 1) / kGroup;
  const auto blocks = static_cast<unsigned>(std::min(kMostBlocks, (groups + kBlock - 1) / kBlock));
  const bool aligned = is_aligned(x) && is_aligned(halved);
  runtime::Stream& stream = context.stream();
  stream.fill_zero(scale, kScaleNumbers * sizeof(float));
  runtime::cuda::launch(stream, "find the largest number of a matrix", largest_kernel, blocks,
                        kBlock, 0, x, count, aligned, scale);
  runtime::cuda::launch(stream, "halve a matrix", halve_kernel, std::max(1u, blocks), kBlock, 0, x,
                        count, aligned, halved, scale);
}

void make_alphas(const Context& context, std::span<const AlphaArgs> alphas) {
  Alphas all{};
  for (std::size_t i = 0; i < alphas.size(); ++i) {
    const AlphaArgs& args = alphas[i];
    all.at[i] = {args.left.data_as<const float>(), args.right.data_as<const float>(),
                 args.factor.data_as<const double>(), args.times, args.alpha.data_as<float>()};
  }
  runtime::cuda::launch(context.stream(), "scale products", alphas_kernel, 1,
                        static_cast<unsigned>(alphas.size()), 0, all);
}

}  // namespace sluice::kernels::matmul::cuda
