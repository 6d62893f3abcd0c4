#include "base/dtype.h"
#include "kernels/loss/cuda/loss.h"
#include "kernels/loss/cuda/sums.h"
#include "kernels/loss/cuda/tokens.h"
#include "runtime/cuda/launch.h"
#include "runtime/cuda/reduce.h"

namespace sluice::kernels::loss::cuda {
namespace {

using runtime::cuda::kWarp;

constexpr int kBlock = 256;

template <typename T>
struct Frames {
  std::int64_t first_time, time, rows, values;
  const T* predictions;
  const float* targets;
  const std::int32_t* lengths;  ///< or null: every frame counts
  T* gradient;                  ///< may be the predictions, or null
  TokenResult* results;
  Scale scale;

  __device__ bool counts(std::int64_t n) const {
    return lengths == nullptr || first_time + n / rows < lengths[n % rows];
  }
};

/// A warp a frame.
template <typename T>
__global__ void __launch_bounds__(kBlock) squared_error_kernel(Frames<T> p) {
  const std::int64_t n = std::int64_t{blockIdx.x} * (kBlock / kWarp) + threadIdx.x / kWarp;
  if (n >= p.time * p.rows) return;
  const runtime::cuda::Team<kWarp> team{static_cast<int>(threadIdx.x % kWarp), nullptr};
  const bool counts = p.counts(n);
  const double share = 1 / static_cast<double>(p.values);
  const double factor = 2 * share * p.scale.value();
  double sum = 0;
  for (std::int64_t i = n * p.values + team.rank; i < (n + 1) * p.values; i += kWarp) {
    T gradient{0};
    if (counts) {
      const double difference =
          static_cast<double>(p.predictions[i]) - static_cast<double>(p.targets[i]);
      sum += difference * difference;
      gradient = static_cast<T>(factor * difference);
    }
    if (p.gradient != nullptr) p.gradient[i] = gradient;
  }
  // Values are neither right nor wrong.
  const double error = team.reduce(sum, runtime::cuda::Add{}) * share;
  if (team.rank == 0) p.results[n] = {error, error, counts ? 1.0 : 0.0, counts ? NAN : 0.0};
}

}  // namespace

void squared_error(Stream& stream, const SquaredErrorArgs& args) {
  auto* results = static_cast<TokenResult*>(args.workspace);
  const std::int64_t frames = args.time * args.rows;
  base::dispatch_master(args.predictions.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Frames<T> p{args.first_time,
                      args.time,
                      args.rows,
                      args.predictions.size(1),
                      args.predictions.data_as<const T>(),
                      args.targets.data_as<const float>(),
                      args.lengths.data_as<const std::int32_t>(),
                      args.d_predictions.data_as<T>(),
                      results,
                      Scale(args)};
    constexpr std::int64_t kFrames = kBlock / kWarp;
    runtime::cuda::launch(stream, "take the squared error", squared_error_kernel<T>,
                          static_cast<unsigned>((frames + kFrames - 1) / kFrames), kBlock, 0, p);
  });
  add_up(stream, results, frames, args.sums.data_as<double>(), args.accumulate_sums);
}

}  // namespace sluice::kernels::loss::cuda
