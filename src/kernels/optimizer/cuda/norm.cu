#include "base/dtype.h"
#include "kernels/optimizer/cuda/optimizer.h"
#include "runtime/cuda/launch.h"
#include "runtime/cuda/reduce.h"

namespace sluice::kernels::optimizer::cuda {
namespace {

using runtime::cuda::Add;
using runtime::cuda::kAllLanes;
using runtime::cuda::kWarp;
using runtime::cuda::Team;

constexpr int kBlock = 256;
/// Elements that the threads of a block take in a round, four each.
constexpr int kRound = 4 * kBlock, kRounds = kNormBlock / kRound;
static_assert(kNormBlock % kRound == 0 && kRounds <= kWarp && 4 * kWarp == kElementsPerMark);
/// Rounds whose elements are on their way at once.
constexpr int kTogether = 4;

template <typename T>
struct alignas(16) Group {
  T at[4];
};

/// Four elements from i on, those from `end` on as zeros.
template <typename T>
__device__ Group<T> load(const T* x, std::int64_t i, std::int64_t end, bool aligned) {
  if (aligned && i + 4 <= end) return *reinterpret_cast<const Group<T>*>(x + i);
  Group<T> values{};
  for (int j = 0; j < 4 && i + j < end; ++j) values.at[j] = x[i + j];
  return values;
}

/// The squares of one block of the contract's; a thread adds up every 256th group of four. What a
/// warp takes in a round has one mark, and a round without is left out.
template <typename T>
__global__ void __launch_bounds__(kBlock)
    partials_kernel(const T* x, std::int64_t count, Marks marks, bool aligned, double* partials) {
  __shared__ double scratch[kBlock / kWarp];
  const std::int64_t begin = blockIdx.x * kNormBlock;
  const std::int64_t end = begin + kNormBlock < count ? begin + kNormBlock : count;
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const std::int64_t chunk = begin + lane * kRound + warp * kElementsPerMark;
  unsigned rounds =
      __ballot_sync(kAllLanes, lane < kRounds && chunk < end && marks.is_marked(chunk));
  double sum = 0;
  while (rounds != 0) {
    Group<T> values[kTogether]{};
#pragma unroll
    for (int k = 0; k < kTogether; ++k) {
      if (rounds == 0) break;
      const std::int64_t i = begin + (__ffs(rounds) - 1) * kRound + 4 * threadIdx.x;
      rounds &= rounds - 1;
      values[k] = load(x, i, end, aligned);
    }
#pragma unroll
    for (int k = 0; k < kTogether; ++k) {
      for (const T value : values[k].at) {
        sum += static_cast<double>(value) * static_cast<double>(value);
      }
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
  const Marks marks(args.marks);
  auto* partials = args.partials.data_as<double>();
  base::dispatch_master(args.gradients.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto* x = args.gradients.data_as<const T>();
    const bool aligned = reinterpret_cast<std::uintptr_t>(x) % alignof(Group<T>) == 0;
    runtime::cuda::launch(stream, "add up squares", partials_kernel<T>,
                          static_cast<unsigned>(blocks), kBlock, 0, x, count, marks, aligned,
                          partials);
  });
  runtime::cuda::launch(stream, "add up sums of squares", total_kernel, 1, kBlock, 0, partials,
                        blocks, args.loss_scale.data_as<const double>(),
                        args.sum.data_as<double>());
}

}  // namespace sluice::kernels::optimizer::cuda
