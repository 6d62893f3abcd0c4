#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::training {

struct ValidationReport;

/// A number that a validation measures and training.keep_best can name.
struct ValidationMetric {
  enum class Source {
    kSums,     ///< of the loss, as every validation adds them up
    kAnswers,  ///< what AnswerScorer finds in the plans that make these sums
    kSearch,   ///< what it takes a search of its own to find: measured if training.keep_best names
               ///< one of these
  };

  std::string_view key;   ///< as the configuration and TensorBoard have it: "exact_match"
  std::string_view name;  ///< for people: "exact match"
  Source source = Source::kSums;
  bool higher_is_better = false;
  std::string (*show)(double) = nullptr;                 ///< the value, for people
  double (*of_sums)(const ValidationReport&) = nullptr;  ///< for kSums

  /// Turns a value into the number to be minimised, and back.
  double minimised(double number) const { return higher_is_better ? -number : number; }
};

/// Of the targets' likelihood, for kinds of models that have one.
extern const ValidationMetric kLossMetric, kPerplexityMetric, kAccuracyMetric;

/// How people read values: 12.34, 0.1234, 12.34%.
std::string show_score(double value);
std::string show_number(double value);
std::string show_share(double value);

struct Measured {
  const ValidationMetric* metric = nullptr;
  double value = 0;
};

/// The result of a validation.
struct ValidationReport {
  std::int64_t step = 0;
  double loss = 0;                 ///< kernels::loss::kNll per target, eos counted
  double perplexity = 0;           ///< exp(loss)
  double accuracy = 0;             ///< share of targets with the largest logit
  std::vector<Measured> measured;  ///< of the task's metrics, in their order
  double metric = 0;               ///< what training.keep_best names, to be minimised
  bool improved = false;           ///< the best so far, kept as <output>/best

  /// Nothing if it was not measured.
  std::optional<double> value(std::string_view key) const;
};

}  // namespace sluice::training
