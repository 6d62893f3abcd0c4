#include "base/dtype.h"
#include "kernels/loss/cuda/loss.h"
#include "kernels/loss/cuda/softmax_row.h"
#include "kernels/loss/cuda/tokens.h"

namespace sluice::kernels::loss::cuda {
namespace {

using runtime::cuda::Add;

template <typename T>
struct Problem {
  Tokens tokens;
  std::int64_t vocabulary;
  const T* logits;
  T* gradient;  ///< may be the logits, or null
  TokenResult* results;
  double smoothing, scale;
  bool aligned;
  bool cached;  ///< whether a block keeps its row in shared memory
};

/// gradient = factor * powers - shift, and less at the target.
template <typename T>
struct Gradient {
  T* data;
  int count;
  std::int32_t target;
  T factor, shift, at_target;
  bool aligned;

  __device__ void write(int g, const Group<T>& powers) const {
    Group<T> values;
    for (int i = 0; i < 4; ++i) {
      values.at[i] = powers.at[i] * factor - shift;
      if (4 * g + i == target) values.at[i] -= at_target;
    }
    if (aligned && 4 * g + 4 <= count) {
      *reinterpret_cast<Group<T>*>(data + 4 * g) = values;
      return;
    }
    for (int i = 0; i < 4 && 4 * g + i < count; ++i) data[4 * g + i] = values.at[i];
  }
};

template <int kSize, typename T>
__device__ void write_zeros(const Team<kSize>& team, T* data, std::int64_t count) {
  for (std::int64_t j = team.rank; j < count; j += kSize) data[j] = T{0};
}

/// Sums beside that of the exponentials.
struct RowSums {
  double exponentials, values;
  bool earlier;  ///< a logit before the target's is the largest
};

template <int kSize, typename T>
__device__ RowSums row_sums(const Team<kSize>& team, const Row<T>& row, T largest,
                            const Problem<T>& p, std::int32_t target, Group<T>* cache) {
  double values_sum = 0;
  int earlier = 0;
  const auto count = static_cast<int>(p.vocabulary);
  const double exponentials_sum = sum_of_exponentials(
      team, row, largest, [&](int g, const Group<T>& values, const Group<T>& powers) {
        for (int i = 0; i < 4; ++i) {
          if (4 * g + i < target && values.at[i] == largest) earlier = 1;
        }
        if (p.smoothing != 0) {
          for (int i = 0; i < 4; ++i) {
            if (4 * g + i < count) values_sum += static_cast<double>(values.at[i]);
          }
        }
        if (cache != nullptr) cache[g] = powers;
      });
  if (p.smoothing != 0) values_sum = team.reduce(values_sum, Add{});
  return {exponentials_sum, values_sum, team.reduce(earlier, runtime::cuda::Larger{}) != 0};
}

template <int kSize, typename T>
__device__ TokenResult token_loss(const Team<kSize>& team, const Problem<T>& p, std::int64_t n,
                                  Group<T>* cache) {
  Row<T> row{p.logits + n * p.vocabulary, static_cast<int>(p.vocabulary), p.aligned};
  const std::int32_t target = p.tokens.targets[n];
  const T x_target = target_logit(row.data, p.vocabulary, target);
  const T largest = maximum(team, row, cache);
  const RowSums sums = row_sums(team, row, largest, p, target, cache);
  const double uniform = p.smoothing / static_cast<double>(p.vocabulary);
  if (p.gradient != nullptr) {
    team.sync();  // the gradient may take the place of the logits, of which all have read the
                  // target's
    const Gradient<T> gradient{p.gradient + n * p.vocabulary,
                               static_cast<int>(p.vocabulary),
                               target,
                               static_cast<T>(p.scale / sums.exponentials),
                               static_cast<T>(p.scale * uniform),
                               static_cast<T>(p.scale * (1 - p.smoothing)),
                               p.aligned};
    for_each_group(team, row, [&](int g, const Group<T>& values) {
      gradient.write(g, cache != nullptr ? values : exponentials(values, largest));
    });
  }
  const double log_sum = static_cast<double>(largest) + ::log(sums.exponentials);
  const double nll = log_sum - static_cast<double>(x_target);
  // Without smoothing the sum of all logits stays out, for it may be infinite where p is 0.
  const double smoothing_part =
      p.smoothing == 0 ? 0 : p.smoothing * log_sum - uniform * sums.values;
  const bool correct = x_target == largest && !sums.earlier;
  return {(1 - p.smoothing) * nll + smoothing_part, nll, 1, correct ? 1.0 : 0.0};
}

template <typename T, int kSize>
__global__ void __launch_bounds__(kRowThreads) cross_entropy_kernel(Problem<T> p) {
  extern __shared__ __align__(16) unsigned char shared[];
  __shared__ double scratch[kRowThreads / kWarp];
  const Team<kSize> team = team_of_row<kSize>(scratch);
  const std::int64_t n = row_of_team<kSize>();
  if (n >= p.tokens.count()) return;
  TokenResult result{};
  if (p.tokens.counts(n)) {
    result = token_loss(team, p, n, p.cached ? reinterpret_cast<Group<T>*>(shared) : nullptr);
  } else if (p.gradient != nullptr) {
    write_zeros(team, p.gradient + n * p.vocabulary, p.vocabulary);
  }
  if (team.rank == 0) p.results[n] = result;
}

constexpr int kTotalThreads = 512;

/// A thread adds up every 512th token; then the threads' sums.
__global__ void __launch_bounds__(kTotalThreads)
    add_up_kernel(const TokenResult* results, std::int64_t count, double* sums, bool accumulate) {
  __shared__ double scratch[kTotalThreads / kWarp];
  const Team<kTotalThreads> team{static_cast<int>(threadIdx.x), scratch};
  TokenResult total{};
  for (std::int64_t n = threadIdx.x; n < count; n += kTotalThreads) {
    total.loss += results[n].loss;
    total.nll += results[n].nll;
    total.counted += results[n].counted;
    total.correct += results[n].correct;
  }
  const double parts[kSums] = {team.reduce(total.loss, Add{}), team.reduce(total.nll, Add{}),
                               team.reduce(total.counted, Add{}),
                               team.reduce(total.correct, Add{})};
  if (threadIdx.x != 0) return;
  for (int i = 0; i < kSums; ++i) sums[i] = accumulate ? sums[i] + parts[i] : parts[i];
}

template <typename T>
void launch_rows(Stream& stream, const CrossEntropyArgs& args, TokenResult* results) {
  const std::int64_t vocabulary = args.logits.size(1);
  const auto* logits = args.logits.data_as<const T>();
  auto* gradient = args.d_logits.data_as<T>();
  const bool aligned = rows_are_aligned(logits, vocabulary) &&
                       (gradient == nullptr || rows_are_aligned(gradient, vocabulary));
  const RowLaunch launch = row_launch<T>(args.time * args.rows, vocabulary);
  const bool cached = launch.cache_bytes > 0;
  const Problem<T> p{Tokens(args),         vocabulary, logits,  gradient, results,
                     args.label_smoothing, args.scale, aligned, cached};
  runtime::cuda::launch(
      stream, "take the cross entropy",
      launch.by_warp ? cross_entropy_kernel<T, kWarp> : cross_entropy_kernel<T, kRowThreads>,
      launch.grid, launch.block, launch.cache_bytes, p);
}

}  // namespace

void cross_entropy(Stream& stream, const CrossEntropyArgs& args) {
  auto* results = static_cast<TokenResult*>(args.workspace);
  base::dispatch_master(args.logits.dtype(), [&](auto tag) {
    launch_rows<typename decltype(tag)::type>(stream, args, results);
  });
  runtime::cuda::launch(stream, "add up losses", add_up_kernel, 1, kTotalThreads, 0, results,
                        args.time * args.rows, args.sums.data_as<double>(), args.accumulate_sums);
}

}  // namespace sluice::kernels::loss::cuda
