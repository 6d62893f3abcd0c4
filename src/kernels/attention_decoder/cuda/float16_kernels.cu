#include "base/check.h"
#include "kernels/attention_decoder/cuda/float16_kernels.h"
#include "runtime/cuda/launch.h"
#include "runtime/cuda/neighbours.h"
#include "runtime/cuda/scale.h"

namespace sluice::kernels::attention_decoder::cuda {
namespace {

using runtime::cuda::blocks_for;
using runtime::cuda::launch;

constexpr int kThreads = 256;
constexpr int kWarp = 32;

constexpr int kMostLines = 3;
struct AllLines {
  GradientLines at[kMostLines];
};

/// A warp takes a line at a time; blockIdx.y: which of them. Bits of positive numbers compare as
/// the numbers do; NaN is the largest of all.
__global__ void __launch_bounds__(kThreads) largest_kernel(AllLines all, GradientScale* scale) {
  constexpr int kWarps = kThreads / kWarp;
  const GradientLines& lines = all.at[blockIdx.y];
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  unsigned bits = 0;
  for (std::int64_t line = std::int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarp;
       line < lines.steps * lines.rows; line += std::int64_t{gridDim.x} * kWarps) {
    if (lines.lengths != nullptr && line / lines.rows >= lines.lengths[line % lines.rows]) continue;
    const float* x = lines.x + line * lines.width;
#pragma unroll 8
    for (std::int64_t i = lane; i < lines.width; i += kWarp) {
      bits = max(bits, __float_as_uint(fabsf(x[i])));
    }
  }
  bits = __reduce_max_sync(~0u, bits);
  if (lane == 0) atomicMax(reinterpret_cast<unsigned*>(&scale->largest), bits);
}

/// Bits of the largest gradient, scaled: that leaves gradients room to grow 2,000 times on their
/// way, where they are cut off, and those that are 2^-18 of the largest have all of eleven bits.
constexpr int kGradientBits = 5;

constexpr std::size_t kMostConversions = 8;
struct Job {
  const void* from;
  void* to;
  std::int64_t count;
  bool from_half, to_half;
  bool aligned;  ///< both, to four numbers
};
struct Jobs {
  Job at[kMostConversions];
};

constexpr int kGroup = 4;
template <typename T>
using Group = runtime::cuda::Neighbours<T, kGroup>;

/// Gradients that grew out of float16 are as large as it has them.
template <typename To, typename From>
__device__ To converted(From from, float factor) {
  auto number = static_cast<float>(from);
  if constexpr (std::is_same_v<From, __half>) number = within(number, kMostFloat16);
  return static_cast<To>(number * factor);
}

template <typename From, typename To>
__device__ void convert_all(const Job& job, float factor) {
  const auto* from = static_cast<const From*>(job.from);
  auto* to = static_cast<To*>(job.to);
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads * kGroup;
  for (std::int64_t i = (std::int64_t{blockIdx.x} * kThreads + threadIdx.x) * kGroup; i < job.count;
       i += step) {
    if (job.aligned && i + kGroup <= job.count) {
      const auto group = *reinterpret_cast<const Group<From>*>(from + i);
      Group<To> out;
#pragma unroll
      for (int k = 0; k < kGroup; ++k) {
        out.at[k] = converted<To>(group.at[k], factor);
      }
      runtime::cuda::store_neighbours(to + i, out);
    } else {
      for (int k = 0; k < kGroup && i + k < job.count; ++k) {
        to[i + k] = converted<To>(from[i + k], factor);
      }
    }
  }
}

/// blockIdx.y: the job.
__global__ void __launch_bounds__(kThreads)
    convert_kernel(const __grid_constant__ Jobs jobs, Rescaling rescaling, GradientScale* scale) {
  float factor = 1;
  if (rescaling == Rescaling::kDown) factor = scale->down;
  if (rescaling == Rescaling::kUp) {
    const runtime::cuda::Scale power(scale->largest, kGradientBits);
    factor = power.up;
    if (blockIdx.x + blockIdx.y + threadIdx.x == 0) {
      scale->down = power.down;
      scale->one = 1;
    }
  }
  const Job& job = jobs.at[blockIdx.y];
  if (job.from_half) {
    convert_all<__half, float>(job, factor);
  } else if (job.to_half) {
    convert_all<float, __half>(job, factor);
  } else {
    convert_all<float, float>(job, factor);
  }
}

bool is_aligned(const Tensor& tensor) {
  return reinterpret_cast<std::uintptr_t>(tensor.data()) %
             (kGroup * base::size_of(tensor.dtype())) ==
         0;
}

}  // namespace

void find_largest(Stream& stream, const std::vector<GradientLines>& gradients,
                  GradientScale* scale) {
  AllLines all{};
  unsigned count = 0;
  std::int64_t most = 0;
  for (const GradientLines& lines : gradients) {
    if (lines.x == nullptr) continue;
    SLUICE_ASSERT(count < kMostLines);
    all.at[count++] = lines;
    most = std::max(most, lines.steps * lines.rows);
  }
  stream.fill_zero(scale, sizeof(GradientScale));
  const dim3 grid(blocks_for(most * kWarp, kThreads), count);
  launch(stream, "find the largest gradient of a decoder", largest_kernel, grid, kThreads, 0, all,
         scale);
}

void convert(Stream& stream, const std::vector<Conversion>& conversions, Rescaling rescaling,
             GradientScale* scale) {
  Jobs jobs{};
  unsigned count = 0;
  std::int64_t most = 0;
  for (const Conversion& conversion : conversions) {
    if (!conversion.from || !conversion.to) continue;
    SLUICE_ASSERT(count < kMostConversions);
    const std::int64_t elements = conversion.to.element_count();
    jobs.at[count++] = {conversion.from.data(),
                        conversion.to.data(),
                        elements,
                        conversion.from.dtype() == base::DType::kFloat16,
                        conversion.to.dtype() == base::DType::kFloat16,
                        is_aligned(conversion.from) && is_aligned(conversion.to)};
    most = std::max(most, elements);
  }
  const dim3 grid(blocks_for((most + kGroup - 1) / kGroup, kThreads), count);
  launch(stream, "convert what a decoder is given", convert_kernel, grid, kThreads, 0, jobs,
         rescaling, scale);
}

}  // namespace sluice::kernels::attention_decoder::cuda
