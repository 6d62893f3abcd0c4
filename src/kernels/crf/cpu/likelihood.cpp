#include <algorithm>
#include <cmath>

#include "base/dtype.h"
#include "kernels/crf/cpu/crf.h"
#include "kernels/crf/cpu/log_sums.h"
#include "kernels/crf/cpu/scores.h"
#include "kernels/crf/cpu/transition_gradient.h"
#include "kernels/crf/workspace.h"

namespace sluice::kernels::crf::cpu {
namespace {

template <typename T>
class Likelihood {
 public:
  explicit Likelihood(const LossArgs& args)
      : scores_(args),
        workspace_(args.workspace, args.time, args.rows, scores_.labels, true, has_gradient(args)),
        args_(args),
        targets_(args.targets.data_as<const std::int32_t>()),
        best_(args.best.data_as<std::int32_t>()),
        d_emissions_(args.d_emissions.data_as<T>()) {
    const auto number = [](const Tensor& x) { return x ? x.data_as<const double>()[0] : 1; };
    scale_ = number(args.scale) * number(args.loss_scale);
  }

  void run() {
    check_targets();
    prepare();
#pragma omp parallel for schedule(static, 1) if (scores_.worth_threads())
    for (std::int64_t row = 0; row < scores_.rows; ++row) run_row(row);
    if (d_emissions_ != nullptr) {
      add_transition_gradient(scores_, workspace_, targets_, scale_,
                              args_.d_chain.transitions.data_as<T>());
      add_boundary_gradient(0, args_.d_chain.start.data_as<T>());
      add_boundary_gradient(1, args_.d_chain.end.data_as<T>());
    }
    add_up();
  }

 private:
  static bool has_gradient(const LossArgs& args) { return static_cast<bool>(args.d_emissions); }
  std::int32_t target(std::int64_t t, std::int64_t row) const {
    return targets_[t * scores_.rows + row];
  }
  double* forward(std::int64_t t, std::int64_t row) const {
    return workspace_.forward + scores_.cell(t, row);
  }
  double* backward(std::int64_t t, std::int64_t row) const {
    return workspace_.backward + scores_.cell(t, row);
  }
  /// Free while the best labels aren't looked for.
  double* scratch(std::int64_t t, std::int64_t row) const {
    return workspace_.viterbi + scores_.cell(t, row);
  }

  void check_targets() const {
    for (std::int64_t row = 0; row < scores_.rows; ++row) {
      for (std::int64_t t = 0; t < scores_.length(row); ++t) {
        const std::int32_t label = target(t, row);
        SLUICE_CHECK(label >= 0 && label < scores_.labels,
                     "target {} of row {} at time {} is none of {} labels", label, row, t,
                     scores_.labels);
      }
    }
  }

  void prepare() const {
    const std::int64_t labels = scores_.labels;
    double largest = scores_.transition(0, 0);
    for (std::int64_t k = 1; k < labels * labels; ++k) {
      largest = std::max(largest, static_cast<double>(scores_.transitions[k]));
    }
    if (!std::isfinite(largest)) largest = 0;
    *workspace_.largest = largest;
    for (std::int64_t i = 0; i < labels; ++i) {
      for (std::int64_t j = 0; j < labels; ++j) {
        const double weight = std::exp(scores_.transition(i, j) - largest);
        workspace_.weights[i * labels + j] = weight;
        if (d_emissions_ != nullptr) workspace_.turned[j * labels + i] = weight;
      }
    }
  }

  void run_row(std::int64_t row) const {
    const std::int64_t length = scores_.length(row);
    RowResult& result = workspace_.results[row];
    result = {};
    if (length > 0) {
      result.log_z = sum_forward(row, length);
      result.loss = result.log_z - target_score(row, length);
      result.counted = static_cast<double>(length);
    }
    best_of_row(scores_, row, workspace_.viterbi, best_);
    for (std::int64_t t = 0; t < length; ++t) {
      result.correct += best_[t * scores_.rows + row] == target(t, row) ? 1 : 0;
    }
    if (d_emissions_ == nullptr) return;
    if (length > 0) {
      sum_backward(row, length);
      // Downwards, for a step's factors take the place of log-sums that the step after it needs.
      for (std::int64_t t = length - 1; t >= 0; --t) differentiate(t, row, length, result.log_z);
    }
    for (std::int64_t t = length; t < scores_.time; ++t) {
      std::fill_n(d_emissions_ + scores_.cell(t, row), scores_.labels, T{0});
    }
  }

  /// forward[t, j]: of all that ends at time t in label j. Returns log Z.
  double sum_forward(std::int64_t row, std::int64_t length) const {
    const std::int64_t labels = scores_.labels;
    for (std::int64_t j = 0; j < labels; ++j) {
      forward(0, row)[j] = static_cast<double>(scores_.start[j]) + scores_.emission(0, row, j);
    }
    for (std::int64_t t = 1; t < length; ++t) {
      const auto transition = [&](std::int64_t i, std::int64_t j) {
        return scores_.transition(i, j);
      };
      double* out = forward(t, row);
      log_sums(labels, forward(t - 1, row), workspace_.weights, *workspace_.largest, transition,
               scratch(t, row), out);
      for (std::int64_t j = 0; j < labels; ++j) out[j] += scores_.emission(t, row, j);
    }
    const double* last = forward(length - 1, row);
    return log_sum(labels,
                   [&](std::int64_t j) { return last[j] + static_cast<double>(scores_.end[j]); });
  }

  /// backward[t, i]: of all that follows label i at time t.
  void sum_backward(std::int64_t row, std::int64_t length) const {
    const std::int64_t labels = scores_.labels;
    for (std::int64_t i = 0; i < labels; ++i) {
      backward(length - 1, row)[i] = static_cast<double>(scores_.end[i]);
    }
    for (std::int64_t t = length - 2; t >= 0; --t) {
      const auto transition = [&](std::int64_t to, std::int64_t from) {
        return scores_.transition(from, to);
      };
      double* next = scratch(t + 1, row);
      add_emissions(t + 1, row, next);
      log_sums(labels, next, workspace_.turned, *workspace_.largest, transition, scratch(t, row),
               backward(t, row));
    }
  }

  /// sums = backward + emissions of a step
  void add_emissions(std::int64_t t, std::int64_t row, double* sums) const {
    const double* following = backward(t, row);
    for (std::int64_t j = 0; j < scores_.labels; ++j) {
      sums[j] = scores_.emission(t, row, j) + following[j];
    }
  }

  double target_score(std::int64_t row, std::int64_t length) const {
    double score = static_cast<double>(scores_.start[target(0, row)]);
    for (std::int64_t t = 0; t < length; ++t) {
      if (t > 0) score += scores_.transition(target(t - 1, row), target(t, row));
      score += scores_.emission(t, row, target(t, row));
    }
    return score + static_cast<double>(scores_.end[target(length - 1, row)]);
  }

  /// One step's gradients: expected minus observed. d_emissions may take the emissions' place.
  void differentiate(std::int64_t t, std::int64_t row, std::int64_t length, double log_z) const {
    const std::int64_t labels = scores_.labels;
    double* after = scratch(t, row);
    add_emissions(t, row, after);
    for (std::int64_t j = 0; j < labels; ++j) {
      const double expected = std::exp(forward(t, row)[j] + backward(t, row)[j] - log_z);
      const double d = expected - (j == target(t, row) ? 1 : 0);
      if (t == 0) boundary(0, row)[j] = d;
      if (t == length - 1) boundary(1, row)[j] = d;
      d_emissions_[scores_.cell(t, row) + j] = static_cast<T>(scale_ * d);
    }
    if (t > 0) keep_factors(scores_, workspace_, t, row, forward(t - 1, row), after, log_z);
  }

  double* boundary(std::int64_t side, std::int64_t row) const {
    return workspace_.boundary + (side * scores_.rows + row) * scores_.labels;
  }
  void add_boundary_gradient(std::int64_t side, T* gradient) const {
    for (std::int64_t j = 0; j < scores_.labels; ++j) {
      double sum = 0;
      for (std::int64_t row = 0; row < scores_.rows; ++row) {
        if (scores_.length(row) > 0) sum += boundary(side, row)[j];
      }
      gradient[j] += static_cast<T>(scale_ * sum);
    }
  }

  void add_up() const {
    RowResult total{};
    for (std::int64_t row = 0; row < scores_.rows; ++row) {
      total.loss += workspace_.results[row].loss;
      total.counted += workspace_.results[row].counted;
      total.correct += workspace_.results[row].correct;
    }
    auto* sums = args_.sums.data_as<double>();
    sums[loss::kLoss] = sums[loss::kNll] = total.loss;
    sums[loss::kTokens] = total.counted;
    sums[loss::kCorrect] = total.correct;
  }

  Scores<T> scores_;
  Workspace workspace_;
  const LossArgs& args_;
  const std::int32_t* targets_;
  std::int32_t* best_;
  T* d_emissions_;
  double scale_ = 1;
};

}  // namespace

void negative_log_likelihood(Stream& stream, const LossArgs& args) {
  base::dispatch_master(args.emissions.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    stream.launch([args] { Likelihood<T>(args).run(); });
  });
}

}  // namespace sluice::kernels::crf::cpu
