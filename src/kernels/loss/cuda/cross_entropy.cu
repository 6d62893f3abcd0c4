#include <cuda_pipeline_primitives.h>

#include <algorithm>

#include "base/dtype.h"
#include "kernels/loss/cuda/loss.h"
#include "kernels/loss/cuda/softmax_row.h"
#include "kernels/loss/cuda/sums.h"
#include "kernels/loss/cuda/tokens.h"
#include "runtime/cuda/neighbours.h"
#include "runtime/cuda/numbers.h"

namespace sluice::kernels::loss::cuda {
namespace {

using runtime::cuda::Add;

/// T is the type of the logits, G what their gradient is stored in.
template <typename T, typename G>
struct Problem {
  Tokens tokens;
  std::int64_t vocabulary;
  std::int64_t logit_stride, gradient_stride;  ///< from a row to the next
  std::int64_t columns;  ///< of the gradient: as many as the vocabulary, or more
  const T* logits;
  G* gradient;  ///< may be the logits, or null
  TokenResult* results;
  double smoothing;
  const float* class_weights;  ///< or null
  Scale scale;
  double gradient_factor;
  bool aligned;
  bool cached;  ///< whether a block keeps its row in shared memory

  /// Whether a block fetches its next row while it writes a gradient.
  __device__ bool fetches() const { return cached && aligned; }
  __device__ G* gradient_of(std::int64_t n) const { return gradient + n * gradient_stride; }
  /// 1 for a target outside the vocabulary, whose loss is NaN anyway.
  __device__ double weight_of(std::int32_t target) const {
    const bool has_weight = class_weights != nullptr && target >= 0 && target < vocabulary;
    return has_weight ? static_cast<double>(class_weights[target]) : 1;
  }
};

/// The row that a block works on next.
template <typename T>
struct NextRow {
  const T* logits;  ///< or null: there is none to fetch

  template <typename G>
  __device__ NextRow(const Problem<T, G>& p, std::int64_t n)
      : logits(p.fetches() && n < p.tokens.count() && p.tokens.counts(n)
                   ? p.logits + n * p.logit_stride
                   : nullptr) {}
  /// Each thread fetches what it will read itself, so no other has to be waited for.
  __device__ void fetch(Group<T>* cache, int g) const {
    if (logits == nullptr) return;
    constexpr int kPiece = 16;
    for (std::size_t at = 0; at < sizeof(Group<T>); at += kPiece) {
      __pipeline_memcpy_async(reinterpret_cast<unsigned char*>(cache + g) + at,
                              reinterpret_cast<const unsigned char*>(logits + 4 * g) + at, kPiece);
    }
  }
  template <int kSize, typename G>
  __device__ void fetch_all(const Team<kSize>& team, const Problem<T, G>& p,
                            Group<T>* cache) const {
    if (logits == nullptr) return;
    for (int g = team.rank; g < p.vocabulary / 4; g += kSize) fetch(cache, g);
    __pipeline_commit();
  }
};

/// gradient = factor * powers - shift, and less at the target.
template <typename T, typename G>
struct Gradient {
  G* data;
  int count;
  std::int32_t target;
  T factor, shift, at_target;
  bool aligned;

  __device__ void write(int g, const Group<T>& powers) const {
    runtime::cuda::Neighbours<G, 4> values;
    for (int i = 0; i < 4; ++i) {
      T value = powers.at[i] * factor - shift;
      if (4 * g + i == target) value -= at_target;
      values.at[i] = runtime::cuda::narrowed<G>(value);
    }
    if (aligned) {
      runtime::cuda::store_neighbours(data + 4 * g, values);
      return;
    }
    for (int i = 0; i < 4 && 4 * g + i < count; ++i) data[4 * g + i] = values.at[i];
  }
};

template <int kSize, typename G>
__device__ void write_zeros(const Team<kSize>& team, G* data, std::int64_t count) {
  for (std::int64_t j = team.rank; j < count; j += kSize) data[j] = runtime::cuda::narrowed<G>(0);
}

/// Sums beside that of the exponentials.
struct RowSums {
  double exponentials, values;
  bool earlier;  ///< a logit before the target's is the largest
};

template <int kSize, typename T, typename G>
__device__ RowSums row_sums(const Team<kSize>& team, const Row<T>& row, T largest,
                            const Problem<T, G>& p, std::int32_t target, Group<T>* cache) {
  double values_sum = 0;
  bool earlier = false;
  const auto count = static_cast<int>(p.vocabulary);
  const double exponentials_sum = sum_of_exponentials(
      team, row, largest, [&](int g, const Group<T>& values, const Group<T>& powers) {
        for (int i = 0; i < 4; ++i) {
          if (4 * g + i < target && values.at[i] == largest) earlier = true;
        }
        if (p.smoothing != 0) {
          for (int i = 0; i < 4; ++i) {
            if (4 * g + i < count) values_sum += static_cast<double>(values.at[i]);
          }
        }
        if (cache != nullptr) cache[g] = powers;
      });
  if (p.smoothing != 0) values_sum = team.reduce(values_sum, Add{});
  return {exponentials_sum, values_sum, team.any(earlier)};
}

/// `next` is fetched as soon as this row's place in the cache is free.
template <int kSize, typename T, typename G>
__device__ TokenResult token_loss(const Team<kSize>& team, const Problem<T, G>& p, std::int64_t n,
                                  Group<T>* cache, const NextRow<T>& next) {
  Row<T> row{p.logits + n * p.logit_stride, static_cast<int>(p.vocabulary), p.aligned};
  const std::int32_t target = p.tokens.targets[n];
  const T x_target = target_logit(row.data, p.vocabulary, target);
  if (p.fetches()) {
    row.data = cache->at;
    __pipeline_wait_prior(0);
  }
  const T largest = maximum(team, row, p.fetches() ? nullptr : cache);
  const bool writes = p.gradient != nullptr;
  const double weight = p.weight_of(target);
  const double scale = p.scale.value() * p.gradient_factor * weight;
  const RowSums sums = row_sums(team, row, largest, p, target, writes ? cache : nullptr);
  const double uniform = p.smoothing / static_cast<double>(p.vocabulary);
  if (writes) {
    // It may take the place of the logits; by now all threads have read the target's.
    const Gradient<T, G> gradient{p.gradient_of(n),
                                  static_cast<int>(p.vocabulary),
                                  target,
                                  static_cast<T>(scale / sums.exponentials),
                                  static_cast<T>(scale * uniform),
                                  static_cast<T>(scale * (1 - p.smoothing)),
                                  p.aligned};
    for_each_group(team, row, [&](int g, const Group<T>& values) {
      gradient.write(g, cache != nullptr ? values : exponentials(values, largest));
      next.fetch(cache, g);
    });
    __pipeline_commit();
  } else {
    next.fetch_all(team, p, cache);
  }
  const double log_sum = static_cast<double>(largest) + ::log(sums.exponentials);
  const double nll = log_sum - static_cast<double>(x_target);
  // Without smoothing the sum of all logits stays out, for it may be infinite where p is 0.
  const double smoothing_part =
      p.smoothing == 0 ? 0 : p.smoothing * log_sum - uniform * sums.values;
  const bool correct = x_target == largest && !sums.earlier;
  return {weight * ((1 - p.smoothing) * nll + smoothing_part), nll, 1, correct ? 1.0 : 0.0};
}

template <typename T, typename G, int kSize>
__global__ void __launch_bounds__(kRowThreads) cross_entropy_kernel(Problem<T, G> p) {
  extern __shared__ __align__(16) unsigned char shared[];
  __shared__ double scratch[kRowThreads / kWarp];
  const Team<kSize> team = team_of_row<kSize>(scratch);
  auto* cache = p.cached ? reinterpret_cast<Group<T>*>(shared) : nullptr;
  const std::int64_t stride = std::int64_t{gridDim.x} * (blockDim.x / kSize);
  std::int64_t n = row_of_team<kSize>();
  NextRow<T>(p, n).fetch_all(team, p, cache);
  for (; n < p.tokens.count(); n += stride) {
    const NextRow<T> next(p, n + stride);
    TokenResult result{};
    if (p.tokens.counts(n)) {
      result = token_loss(team, p, n, cache, next);
    } else {
      if (p.gradient != nullptr) write_zeros(team, p.gradient_of(n), p.vocabulary);
      next.fetch_all(team, p, cache);
    }
    if (p.columns > p.vocabulary) {
      write_zeros(team, p.gradient_of(n) + p.vocabulary, p.columns - p.vocabulary);
    }
    if (team.rank == 0) p.results[n] = result;
  }
}

/// Blocks that stay at work, each on one row after another: two a multiprocessor if they fit.
unsigned resident_blocks(const runtime::cuda::GpuProperties& gpu, const RowLaunch& launch) {
  const bool two = 2 * (launch.cache_bytes + kOwnShared / 4) <= gpu.shared_bytes;
  const auto most = static_cast<unsigned>(gpu.processors * (two ? 2 : 1));
  return std::min(launch.grid.x, most);
}

template <typename T, typename G>
void launch_rows(Stream& stream, const CrossEntropyArgs& args, TokenResult* results) {
  const std::int64_t vocabulary = args.logits.size(1);
  const auto* logits = args.logits.data_as<const T>();
  auto* gradient = args.d_logits.data_as<G>();
  const std::int64_t logit_stride = args.logits.stride(0);
  const std::int64_t gradient_stride = gradient != nullptr ? args.d_logits.stride(0) : 0;
  const std::int64_t columns = gradient != nullptr ? args.d_logits.size(1) : vocabulary;
  const bool aligned = vocabulary % 4 == 0 && rows_are_aligned(logits, logit_stride) &&
                       (gradient == nullptr || rows_are_aligned(gradient, gradient_stride));
  const auto& gpu = runtime::cuda::gpu_of(stream);
  const RowLaunch launch = row_launch<T>(gpu, args.time * args.rows, vocabulary);
  const bool cached = launch.cache_bytes > 0;
  const auto* class_weights = args.class_weights.data_as<const float>();
  const Problem<T, G> p{Tokens(args),    vocabulary,  logit_stride,
                        gradient_stride, columns,     logits,
                        gradient,        results,     args.label_smoothing,
                        class_weights,   Scale(args), args.gradient_factor,
                        aligned,         cached};
  runtime::cuda::launch(
      stream, "take the cross entropy",
      launch.by_warp ? cross_entropy_kernel<T, G, kWarp> : cross_entropy_kernel<T, G, kRowThreads>,
      cached ? dim3(resident_blocks(gpu, launch)) : launch.grid, launch.block, launch.cache_bytes,
      p);
}

}  // namespace

void cross_entropy(Stream& stream, const CrossEntropyArgs& args) {
  auto* results = static_cast<TokenResult*>(args.workspace);
  const Tensor& typed = args.d_logits ? args.d_logits : args.logits;
  base::dispatch_float(typed.dtype(), [&](auto tag) {
    using G = typename decltype(tag)::type;
    launch_rows<runtime::cuda::Wide<G>, G>(stream, args, results);
  });
  add_up(stream, results, args.time * args.rows, args.sums.data_as<double>(), args.accumulate_sums);
}

}  // namespace sluice::kernels::loss::cuda
