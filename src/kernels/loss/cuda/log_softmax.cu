#include "base/dtype.h"
#include "kernels/loss/cuda/loss.h"
#include "kernels/loss/cuda/softmax_row.h"
#include "kernels/loss/cuda/tokens.h"

namespace sluice::kernels::loss::cuda {
namespace {

template <typename T>
struct Logits {
  const T* data;
  std::int64_t rows, vocabulary;
  bool aligned;
  bool cached;  ///< whether a block keeps its row in shared memory

  __device__ Row<T> row(std::int64_t n) const {
    return {data + n * vocabulary, static_cast<int>(vocabulary), aligned};
  }
};

template <typename T, int kSize>
__global__ void __launch_bounds__(kRowThreads)
    score_kernel(Logits<T> logits, Tokens tokens, double* scores) {
  extern __shared__ __align__(16) unsigned char shared[];
  __shared__ double scratch[kRowThreads / kWarp];
  const Team<kSize> team = team_of_row<kSize>(scratch);
  const std::int64_t n = row_of_team<kSize>();
  if (n >= logits.rows) return;
  double score = 0;
  if (tokens.counts(n)) {
    Row<T> row = logits.row(n);
    const T x = target_logit(row.data, logits.vocabulary, tokens.targets[n]);
    const Normaliser<T> norm =
        normaliser(team, row, logits.cached ? reinterpret_cast<Group<T>*>(shared) : nullptr);
    score = (static_cast<double>(x) - static_cast<double>(norm.largest)) - norm.log_sum;
  }
  if (team.rank == 0) scores[n] = score;
}

__global__ void sum_over_time_kernel(const double* scores, std::int64_t time, std::int64_t rows,
                                     double* sums) {
  const std::int64_t row = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  double sum = 0;
  for (std::int64_t t = 0; t < time; ++t) sum += scores[t * rows + row];
  sums[row] = sum;
}

template <typename T, int kSize>
__global__ void __launch_bounds__(kRowThreads) log_softmax_kernel(Logits<T> logits, T* out) {
  extern __shared__ __align__(16) unsigned char shared[];
  __shared__ double scratch[kRowThreads / kWarp];
  const Team<kSize> team = team_of_row<kSize>(scratch);
  const std::int64_t n = row_of_team<kSize>();
  if (n >= logits.rows) return;
  Row<T> row = logits.row(n);
  const Normaliser<T> norm =
      normaliser(team, row, logits.cached ? reinterpret_cast<Group<T>*>(shared) : nullptr);
  const T log_sum = static_cast<T>(norm.log_sum);
  T* y = out + n * logits.vocabulary;
  for_each_group(team, row, [&](int g, const Group<T>& values) {
    for (int i = 0; i < 4; ++i) {
      if (4 * g + i < logits.vocabulary) y[4 * g + i] = (values.at[i] - norm.largest) - log_sum;
    }
  });
}

template <typename T>
Logits<T> logits_of(const Tensor& tensor, const RowLaunch& launch) {
  const auto* data = tensor.data_as<const T>();
  return {data, tensor.size(0), tensor.size(1), rows_are_aligned(data, tensor.size(1)),
          launch.cache_bytes > 0};
}

}  // namespace

void score_targets(Stream& stream, const TargetScoreArgs& args) {
  auto* scores = args.token_scores.data_as<double>();
  base::dispatch_master(args.logits.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const RowLaunch launch =
        row_launch<T>(runtime::cuda::gpu_of(stream), args.logits.size(0), args.logits.size(1));
    runtime::cuda::launch(stream, "score targets",
                          launch.by_warp ? score_kernel<T, kWarp> : score_kernel<T, kRowThreads>,
                          launch.grid, launch.block, launch.cache_bytes,
                          logits_of<T>(args.logits, launch), Tokens(args), scores);
  });
  if (!args.row_scores) return;
  constexpr int kBlock = 128;
  runtime::cuda::launch(stream, "add up scores", sum_over_time_kernel,
                        static_cast<unsigned>((args.rows + kBlock - 1) / kBlock), kBlock, 0, scores,
                        args.time, args.rows, args.row_scores.data_as<double>());
}

void log_softmax(Stream& stream, const Tensor& logits, const Tensor& out) {
  base::dispatch_master(logits.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const RowLaunch launch =
        row_launch<T>(runtime::cuda::gpu_of(stream), logits.size(0), logits.size(1));
    runtime::cuda::launch(
        stream, "take the log-softmax",
        launch.by_warp ? log_softmax_kernel<T, kWarp> : log_softmax_kernel<T, kRowThreads>,
        launch.grid, launch.block, launch.cache_bytes, logits_of<T>(logits, launch),
        out.data_as<T>());
  });
}

}  // namespace sluice::kernels::loss::cuda
