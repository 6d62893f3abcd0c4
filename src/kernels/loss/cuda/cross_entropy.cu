#include <algorithm>

#include "base/dtype.h"
#include "kernels/elementwise/cuda/elementwise.h"
#include "kernels/loss/cuda/long_rows.h"
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

  __device__ G* gradient_of(std::int64_t n) const { return gradient + n * gradient_stride; }
  /// 1 for a target outside the vocabulary, whose loss is NaN anyway.
  __device__ double weight_of(std::int32_t target) const {
    const bool has_weight = class_weights != nullptr && target >= 0 && target < vocabulary;
    return has_weight ? static_cast<double>(class_weights[target]) : 1;
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

template <typename G>
__device__ void write_zeros(const Team<kWarp>& team, G* data, std::int64_t count) {
  for (std::int64_t j = team.rank; j < count; j += kWarp) data[j] = runtime::cuda::narrowed<G>(0);
}

/// Sums beside that of the exponentials.
struct RowSums {
  double exponentials, values;
  bool earlier;  ///< a logit before the target's is the largest
};

template <typename T, typename G>
__device__ RowSums row_sums(const Team<kWarp>& team, const Row<T>& row, T largest,
                            const Problem<T, G>& p, std::int32_t target) {
  double values_sum = 0;
  bool earlier = false;
  const auto count = static_cast<int>(p.vocabulary);
  const double exponentials_sum =
      sum_of_exponentials(team, row, largest, [&](int g, const Group<T>& values, const Group<T>&) {
        for (int i = 0; i < 4; ++i) {
          if (4 * g + i < target && values.at[i] == largest) earlier = true;
        }
        if (p.smoothing != 0) {
          for (int i = 0; i < 4; ++i) {
            if (4 * g + i < count) values_sum += static_cast<double>(values.at[i]);
          }
        }
      });
  if (p.smoothing != 0) values_sum = team.reduce(values_sum, Add{});
  return {exponentials_sum, values_sum, team.any(earlier)};
}

template <typename T, typename G>
__device__ TokenResult token_loss(const Team<kWarp>& team, const Problem<T, G>& p, std::int64_t n) {
  Row<T> row{p.logits + n * p.logit_stride, static_cast<int>(p.vocabulary), p.aligned};
  const std::int32_t target = p.tokens.targets[n];
  const T x_target = target_logit(row.data, p.vocabulary, target);
  const T largest = maximum<kWarp, T>(team, row, nullptr);
  const bool writes = p.gradient != nullptr;
  const double weight = p.weight_of(target);
  const double scale = p.scale.value() * p.gradient_factor * weight;
  const RowSums sums = row_sums(team, row, largest, p, target);
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
      gradient.write(g, exponentials(values, largest));
    });
  }
  const double log_sum = static_cast<double>(largest) + ::log(sums.exponentials);
  const double nll = log_sum - static_cast<double>(x_target);
  // Without smoothing the sum of all logits stays out, for it may be infinite where p is 0.
  const double smoothing_part =
      p.smoothing == 0 ? 0 : p.smoothing * log_sum - uniform * sums.values;
  const bool correct = x_target == largest && !sums.earlier;
  return {weight * ((1 - p.smoothing) * nll + smoothing_part), nll, 1, correct ? 1.0 : 0.0};
}

constexpr int kBlock = 256;

/// A warp a row.
template <typename T, typename G>
__global__ void __launch_bounds__(kBlock) cross_entropy_kernel(Problem<T, G> p) {
  const Team<kWarp> team{static_cast<int>(threadIdx.x % kWarp), nullptr};
  const std::int64_t n = std::int64_t{blockIdx.x} * (kBlock / kWarp) + threadIdx.x / kWarp;
  if (n >= p.tokens.count()) return;
  TokenResult result{};
  if (p.tokens.counts(n)) {
    result = token_loss(team, p, n);
  } else if (p.gradient != nullptr) {
    write_zeros(team, p.gradient_of(n), p.vocabulary);
  }
  if (p.columns > p.vocabulary) {
    write_zeros(team, p.gradient_of(n) + p.vocabulary, p.columns - p.vocabulary);
  }
  if (team.rank == 0) p.results[n] = result;
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
  const auto* class_weights = args.class_weights.data_as<const float>();
  const Problem<T, G> p{Tokens(args),    vocabulary,  logit_stride,
                        gradient_stride, columns,     logits,
                        gradient,        results,     args.label_smoothing,
                        class_weights,   Scale(args), args.gradient_factor,
                        aligned};
  constexpr std::int64_t kRows = kBlock / kWarp;
  const auto blocks = static_cast<unsigned>((p.tokens.count() + kRows - 1) / kRows);
  runtime::cuda::launch(stream, "take the cross entropy", cross_entropy_kernel<T, G>, blocks,
                        kBlock, 0, p);
}

}  // namespace

void cross_entropy(Stream& stream, const CrossEntropyArgs& args) {
  auto* results = static_cast<TokenResult*>(args.workspace);
  Tensor added;  // by columns
  if (args.logits.size(1) > kWarpVocabulary || base::size_of(args.logits.dtype()) == 2) {
    added = long_rows(stream, args, results);
  } else {
    const Tensor& typed = args.d_logits ? args.d_logits : args.logits;
    base::dispatch_float(typed.dtype(), [&](auto tag) {
      using G = typename decltype(tag)::type;
      launch_rows<runtime::cuda::Wide<G>, G>(stream, args, results);
    });
    if (args.d_bias) added = args.d_logits.slice(1, 0, args.logits.size(1));
  }
  if (added) elementwise::cuda::column_sums(stream, added, args.d_bias, true, {});
  add_up(stream, results, args.time * args.rows, args.sums.data_as<double>(), args.accumulate_sums);
}

}  // namespace sluice::kernels::loss::cuda
