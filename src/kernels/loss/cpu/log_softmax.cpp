#include <cmath>

#include "base/dtype.h"
#include "kernels/loss/cpu/loss.h"
#include "kernels/loss/cpu/softmax_rows.h"
#include "kernels/loss/cpu/tokens.h"
#include "runtime/launch.h"

namespace sluice::kernels::loss::cpu {
namespace {

/// log(sum of exp(x)) = maximum + log_sum.
template <typename T>
struct Normaliser {
  T maximum;
  double log_sum;
};

template <typename T>
Normaliser<T> normaliser(const SoftmaxRows<T>& rows, const T* x, std::int64_t vocabulary) {
  const T maximum = rows.maximum(x, vocabulary);
  return {maximum, std::log(rows.sums(x, vocabulary, maximum, nullptr).exponentials)};
}

template <typename T>
void run_log_softmax(const T* logits, T* out, std::int64_t count, std::int64_t vocabulary) {
  const SoftmaxRows<T>& rows = softmax_rows<T>();
  const auto run_row = [&](const T* x, T* y) {
    const Normaliser<T> norm = normaliser(rows, x, vocabulary);
    const T log_sum = static_cast<T>(norm.log_sum);
    for (std::int64_t j = 0; j < vocabulary; ++j) y[j] = (x[j] - norm.maximum) - log_sum;
  };
  if (count == 1) return run_row(logits, out);
#pragma omp parallel for schedule(static) if (count * vocabulary > 16384)
  for (std::int64_t n = 0; n < count; ++n) run_row(logits + n * vocabulary, out + n * vocabulary);
}

template <typename T>
double target_score(const SoftmaxRows<T>& rows, const T* x, std::int64_t vocabulary,
                    std::int64_t target) {
  const Normaliser<T> norm = normaliser(rows, x, vocabulary);
  return (static_cast<double>(x[target]) - static_cast<double>(norm.maximum)) - norm.log_sum;
}

void sum_over_time(const double* scores, std::int64_t time, std::int64_t rows, double* sums) {
  for (std::int64_t r = 0; r < rows; ++r) {
    double sum = 0;
    for (std::int64_t t = 0; t < time; ++t) sum += scores[t * rows + r];
    sums[r] = sum;
  }
}

template <typename T>
void run_score_targets(const TargetScoreArgs& args) {
  const Tokens tokens{args.first_time, args.time, args.rows,
                      args.targets.data_as<const std::int32_t>(),
                      args.lengths.data_as<const std::int32_t>()};
  const std::int64_t vocabulary = args.logits.size(1);
  tokens.check_targets(vocabulary);
  const SoftmaxRows<T>& rows = softmax_rows<T>();
  const auto* logits = args.logits.data_as<const T>();
  auto* scores = args.token_scores.data_as<double>();
#pragma omp parallel for schedule(static, 4) if (tokens.count() * vocabulary > 16384)
  for (std::int64_t n = 0; n < tokens.count(); ++n) {
    scores[n] = tokens.counts(n)
                    ? target_score(rows, logits + n * vocabulary, vocabulary, tokens.targets[n])
                    : 0.0;
  }
  auto* sums = args.row_scores.data_as<double>();
  if (sums != nullptr) sum_over_time(scores, args.time, args.rows, sums);
}

}  // namespace

void score_targets(Stream& stream, const TargetScoreArgs& args) {
  base::dispatch_master(args.logits.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    stream.launch([args] { run_score_targets<T>(args); });
  });
}

void log_softmax(Stream& stream, const Tensor& logits, const Tensor& out) {
  base::dispatch_master(logits.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    runtime::launch(stream, [logits, out] {
      run_log_softmax(logits.data_as<const T>(), out.data_as<T>(), logits.size(0), logits.size(1));
    });
  });
}

}  // namespace sluice::kernels::loss::cpu
