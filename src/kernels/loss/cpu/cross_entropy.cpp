#include <algorithm>
#include <cmath>
#include <type_traits>
#include <vector>

#include "base/dtype.h"
#include "kernels/loss/cpu/loss.h"
#include "kernels/loss/cpu/softmax_rows.h"
#include "kernels/loss/cpu/sums.h"
#include "kernels/loss/cpu/tokens.h"

namespace sluice::kernels::loss::cpu {
namespace {

struct Weights {
  double smoothing;
  double scale;
  double target;  ///< of the target's class
};

template <typename T>
bool is_first_maximum(const T* x, std::int64_t target, T maximum) {
  return x[target] == maximum && std::find(x, x + target, maximum) == x + target;
}

/// d is the row's gradient, may be x, or is null.
template <typename T>
TokenResult token_loss(const SoftmaxRows<T>& rows, const T* x, std::int64_t vocabulary,
                       std::int64_t target, const Weights& weights, T* d) {
  const T maximum = rows.maximum(x, vocabulary);
  const auto x_target = static_cast<double>(x[target]);
  const bool correct = is_first_maximum(x, target, maximum);
  const auto sums = rows.sums(x, vocabulary, maximum, d);
  const double log_sum = static_cast<double>(maximum) + std::log(sums.exponentials);
  const double uniform = weights.smoothing / static_cast<double>(vocabulary);
  // Without smoothing the sum of all logits stays out, for it may be infinite where p is 0.
  const double smoothing_part =
      weights.smoothing == 0 ? 0 : weights.smoothing * log_sum - uniform * sums.values;
  const double nll = log_sum - x_target;
  if (d != nullptr) {
    const double scale = weights.scale * weights.target;
    rows.scale_and_shift(d, vocabulary, static_cast<T>(scale / sums.exponentials),
                         static_cast<T>(scale * uniform));
    d[target] -= static_cast<T>(scale * (1 - weights.smoothing));
  }
  const double loss = (1 - weights.smoothing) * nll + smoothing_part;
  return {weights.target * loss, nll, 1, correct ? 1.0 : 0.0};
}

/// Adds each column of the gradient to an element of d_bias, in float64.
template <typename T, typename G>
void add_columns(const CrossEntropyArgs& args) {
  const std::int64_t count = args.logits.size(0), vocabulary = args.logits.size(1);
  const auto* gradient = args.d_logits.data_as<const G>();
  auto* sums = args.d_bias.data_as<T>();
  const std::int64_t stride = args.d_logits.stride(0);
#pragma omp parallel for if (count * vocabulary > 16384)
  for (std::int64_t j = 0; j < vocabulary; ++j) {
    double sum = 0;
    for (std::int64_t n = 0; n < count; ++n) {
      sum += static_cast<double>(static_cast<T>(gradient[n * stride + j]));
    }
    sums[j] += static_cast<T>(sum);
  }
}

/// L: what the logits are stored in, G: their gradient. Reckoned with in float32 or float64.
template <typename L, typename G>
void run(const CrossEntropyArgs& args) {
  using T = std::conditional_t<std::is_same_v<G, double>, double, float>;
  const Tokens tokens{args.first_time, args.time, args.rows,
                      args.targets.data_as<const std::int32_t>(),
                      args.lengths.data_as<const std::int32_t>()};
  const std::int64_t count = tokens.count(), vocabulary = args.logits.size(1);
  tokens.check_targets(vocabulary);
  const auto* logits = args.logits.data_as<const L>();
  auto* gradient = args.d_logits.data_as<G>();
  const std::int64_t logit_stride = args.logits.stride(0);
  const std::int64_t gradient_stride = gradient != nullptr ? args.d_logits.stride(0) : 0;
  const std::int64_t columns = gradient != nullptr ? args.d_logits.size(1) : vocabulary;
  auto* results = static_cast<TokenResult*>(args.workspace);
  const auto* class_weights = args.class_weights.data_as<const float>();
  const double scale = scale_of(args) * args.gradient_factor;
  const SoftmaxRows<T>& rows = softmax_rows<T>();
  // Dealt out in small pieces: ends of sequences that don't count gather in the last steps.
#pragma omp parallel if (count * vocabulary > 16384)
  {
    std::vector<T> wide;  // a row, of what is stored narrower
    if (!std::is_same_v<T, L> || !std::is_same_v<T, G>)
      wide.resize(static_cast<std::size_t>(vocabulary));
#pragma omp for schedule(static, 4)
    for (std::int64_t n = 0; n < count; ++n) {
      G* d = gradient != nullptr ? gradient + n * gradient_stride : nullptr;
      results[n] = {};
      if (tokens.counts(n)) {
        const L* row = logits + n * logit_stride;
        const T* x;
        if constexpr (std::is_same_v<T, L>) {
          x = row;
        } else {
          std::transform(row, row + vocabulary, wide.begin(), [](L value) { return T(value); });
          x = wide.data();
        }
        const std::int32_t target = tokens.targets[n];
        const Weights weights{
            args.label_smoothing, scale,
            class_weights != nullptr ? static_cast<double>(class_weights[target]) : 1};
        if constexpr (std::is_same_v<T, G>) {
          results[n] = token_loss(rows, x, vocabulary, target, weights, d);
        } else {
          results[n] = token_loss(rows, x, vocabulary, target, weights,
                                  d != nullptr ? wide.data() : nullptr);
          if (d != nullptr)
            std::transform(wide.begin(), wide.end(), d, [](T value) { return G(value); });
        }
      } else if (d != nullptr) {
        std::fill(d, d + vocabulary, G(T{0}));
      }
      if (d != nullptr) std::fill(d + vocabulary, d + columns, G(T{0}));
    }
  }
  if (args.d_bias) add_columns<T, G>(args);
  add_up(results, count, args.sums.data_as<double>(), args.accumulate_sums);
}

}  // namespace

void cross_entropy(Stream& stream, const CrossEntropyArgs& args) {
  const Tensor& typed = args.d_logits ? args.d_logits : args.logits;
  base::dispatch_float(typed.dtype(), [&](auto tag) {
    using G = typename decltype(tag)::type;
    using T = std::conditional_t<std::is_same_v<G, double>, double, float>;
    if (args.logits.dtype() == typed.dtype()) {
      stream.launch([args] { run<G, G>(args); });
    } else {
      stream.launch([args] { run<T, G>(args); });
    }
  });
}

}  // namespace sluice::kernels::loss::cpu
