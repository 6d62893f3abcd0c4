#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <type_traits>
#include <vector>

#include "kernels/loss/loss.h"
#include "unit/support/on_device.h"

namespace sluice::kernels::loss {

using base::DType;
using base::Shape;

/// log of the sum of exponentials.
inline double log_sum(const double* x, std::int64_t count) {
  double largest = x[0];
  for (std::int64_t j = 1; j < count; ++j) largest = std::fmax(largest, x[j]);
  double sum = 0;
  for (std::int64_t j = 0; j < count; ++j) sum += std::exp(x[j] - largest);
  return largest + std::log(sum);
}

/// The definition, term by term.
inline double token_loss(const double* x, std::int64_t vocabulary, std::int64_t target,
                         double smoothing) {
  const double z = log_sum(x, vocabulary);
  double loss = (1 - smoothing) * (z - x[target]);
  for (std::int64_t j = 0; j < vocabulary; ++j) {
    loss += smoothing / static_cast<double>(vocabulary) * (z - x[j]);
  }
  return loss;
}

/// Random logits [time * rows, vocabulary] of rows of any length, and their loss by its definition.
class CrossEntropyCase : public testing::OnDevice {
 protected:
  struct Problem {
    std::int64_t time, rows, vocabulary;
    double smoothing, scale;
    std::vector<double> logits;
    std::vector<std::int32_t> targets, lengths;
    std::vector<float> weights{};  ///< of classes; empty: all are 1

    std::int64_t tokens() const { return time * rows; }
    bool counts(std::int64_t n) const {
      return n / rows < lengths[static_cast<std::size_t>(n % rows)];
    }
    double weight(std::int32_t target) const {
      return weights.empty() ? 1 : static_cast<double>(weights[static_cast<std::size_t>(target)]);
    }
    const double* row(std::int64_t n) const { return logits.data() + n * vocabulary; }
  };

  struct Expected {
    double sums[kSums] = {};
    std::vector<double> gradient;
  };

  static Expected expect(const Problem& p) {
    Expected e;
    e.gradient.assign(p.logits.size(), 0.0);
    for (std::int64_t n = 0; n < p.tokens(); ++n) {
      if (!p.counts(n)) continue;
      const double* x = p.row(n);
      const auto target = p.targets[static_cast<std::size_t>(n)];
      const double z = log_sum(x, p.vocabulary);
      e.sums[kLoss] += p.weight(target) * token_loss(x, p.vocabulary, target, p.smoothing);
      e.sums[kNll] += z - x[target];
      e.sums[kTokens] += 1;
      e.sums[kCorrect] += std::max_element(x, x + p.vocabulary) == x + target ? 1 : 0;
      for (std::int64_t j = 0; j < p.vocabulary; ++j) {
        const double goal =
            (j == target ? 1 - p.smoothing : 0) + p.smoothing / static_cast<double>(p.vocabulary);
        e.gradient[static_cast<std::size_t>(n * p.vocabulary + j)] =
            p.weight(target) * p.scale * (std::exp(x[j] - z) - goal);
      }
    }
    return e;
  }

  template <typename T>
  static constexpr double kTolerance = std::is_same_v<T, double> ? 1e-13 : 2e-6;

  template <typename T>
  static Problem make(std::int64_t time, std::int64_t rows, std::int64_t vocabulary,
                      double smoothing, std::uint64_t seed) {
    std::mt19937_64 engine(seed);
    Problem p{time, rows, vocabulary, smoothing, 0.37, {}, {}, {}};
    p.logits = testing::widened(testing::random_values<T>(engine, time * rows * vocabulary, 6.0));
    for (std::int64_t n = 0; n < p.tokens(); ++n) {
      const auto j = static_cast<std::int64_t>(engine() % static_cast<std::uint64_t>(vocabulary));
      p.targets.push_back(static_cast<std::int32_t>(j));
      // Every third token is one that the model gets right.
      if (n % 3 == 0) p.logits[static_cast<std::size_t>(n * vocabulary + j)] = 7;
    }
    for (std::int64_t r = 0; r < rows; ++r) {
      p.lengths.push_back(
          static_cast<std::int32_t>(engine() % static_cast<std::uint64_t>(time + 1)));
    }
    return p;
  }

  template <typename T>
  Tensor put_logits(const Problem& p) {
    return put(std::vector<T>(p.logits.begin(), p.logits.end()), Shape{p.tokens(), p.vocabulary});
  }

  /// Outputs are poisoned, the gradient is beside the logits.
  template <typename T>
  CrossEntropyArgs arguments(const Problem& p) {
    CrossEntropyArgs args;
    args.time = p.time;
    args.rows = p.rows;
    args.logits = put_logits<T>(p);
    args.targets = put(p.targets);
    args.lengths = put(p.lengths);
    args.label_smoothing = p.smoothing;
    if (!p.weights.empty()) args.class_weights = put(p.weights);
    constexpr double kLossScale = 8;  // the gradient has both factors
    args.scale = put_number(p.scale / kLossScale);
    args.loss_scale = put_number(kLossScale);
    args.d_logits = poisoned(base::dtype_of<T>(), args.logits.shape());
    args.sums = poisoned(DType::kFloat64, {kSums});
    const auto bytes = static_cast<std::int64_t>(cross_entropy_workspace_bytes(p.tokens()));
    args.workspace = poisoned(DType::kUInt8, {bytes}).data();
    return args;
  }

  /// `tolerance` is that of a logit of 1.
  void check_sums(const Tensor& sums, const Expected& e, double tolerance) const {
    const auto got = get<double>(sums);
    const double of_all = tolerance * (1 + e.sums[kTokens]) * 7;  // logits up to 7
    EXPECT_NEAR(got[kLoss], e.sums[kLoss], of_all);
    EXPECT_NEAR(got[kNll], e.sums[kNll], of_all);
    EXPECT_EQ(got[kTokens], e.sums[kTokens]);
    EXPECT_EQ(got[kCorrect], e.sums[kCorrect]);
  }

  template <typename T>
  void check_results(const Problem& p, const CrossEntropyArgs& args) const {
    const Expected e = expect(p);
    check_sums(args.sums, e, kTolerance<T>);
    if (!args.d_logits) return;
    const auto gradient = get<T>(args.d_logits);
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      ASSERT_NEAR(gradient[i], e.gradient[i], kTolerance<T>) << "at " << i;
    }
  }

  /// Computes into fresh memory, beside the logits and then over them.
  template <typename T>
  void check_beside_and_in_place(const Problem& p) {
    CrossEntropyArgs args = arguments<T>(p);
    cross_entropy(context_, args);
    check_results<T>(p, args);
    args.d_logits = args.logits;
    args.sums = poisoned(DType::kFloat64, {kSums});
    cross_entropy(context_, args);
    check_results<T>(p, args);
  }
};

}  // namespace sluice::kernels::loss
