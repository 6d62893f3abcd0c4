#include "base/dtype.h"
#include "kernels/optimizer/cuda/optimizer.h"
#include "runtime/cuda/launch.h"
#include "runtime/cuda/reduce.h"

namespace sluice::kernels::optimizer::cuda {
namespace {

using runtime::cuda::Add;
using runtime::cuda::Team;

constexpr int kBlock = 256;

template <typename T>
struct alignas(16) Group {
  T at[4];
};

/// The squares of one block of the contract's; a thread adds up every 256th group of four.
template <typename T>
__global__ void __launch_bounds__(kBlock)
    partials_kernel(const T* x, std::int64_t count, std::int64_t per_block, bool aligned,
                    double* partials) {
  __shared__ double scratch[kBlock / 32];
  const std::int64_t begin = blockIdx.x * per_block;
  const std::int64_t end = begin + per_block < count ? begin + per_block : count;
  double sum = 0;
#pragma unroll 4
  for (std::int64_t i = begin + 4 * threadIdx.x; i < end; i += 4 * kBlock) {
    Group<T> values{};
    if (aligned && i + 4 <= end) {
      values = *reinterpret_cast<const Group<T>*>(x + i);
    } else {
      for (int j = 0; j < 4 && i + j < end; ++j) values.at[j] = x[i + j];
    }
    for (const T value : values.at) {
      sum += static_cast<double>(value) * static_cast<double>(value);
    }
  }
  sum = Team<kBlock>{static_cast<int>(threadIdx.x), scratch}.reduce(sum, Add{});
  if (threadIdx.x == 0) partials[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(kBlock) total_kernel(const double* partials, std::int64_t count,
                                                       const double* loss_scale, double* total) {
  __shared__ double scratch[kBlock / 32];
  double sum = 0;
  for (std::int64_t i = threadIdx.x; i < count; i += kBlock) sum += partials[i];
  sum = Team<kBlock>{static_cast<int>(threadIdx.x), scratch}.reduce(sum, Add{});
  if (threadIdx.x != 0) return;
  const double scale = loss_scale != nullptr ? loss_scale[kScale] : 1;
  *total = sum / (scale * scale);
}

}  // namespace

void sum_of_squares(Stream& stream, const SumOfSquaresArgs& args) {
  const std::int64_t count = args.gradients.size(0), blocks = partial_count(count);
  auto* partials = args.partials.data_as<double>();
  base::dispatch_master(args.gradients.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto* x = args.gradients.data_as<const T>();
    const bool aligned = reinterpret_cast<std::uintptr_t>(x) % alignof(Group<T>) == 0;
    runtime::cuda::launch(stream, "add up squares", partials_kernel<T>,
                          static_cast<unsigned>(blocks), kBlock, 0, x, count, kNormBlock, aligned,
                          partials);
  });
  runtime::cuda::launch(stream, "add up sums of squares", total_kernel, 1, kBlock, 0, partials,
                        blocks, args.loss_scale.data_as<const double>(),
                        args.sum.data_as<double>());
}

}  // namespace sluice::kernels::optimizer::cuda
