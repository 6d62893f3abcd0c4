#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace sluice::training {

/// How the model's answers by greedy search compare with the references.
struct AnswerScores {
  double exact_match = 0;  ///< share of answers that are right, token for token
  double bleu = 0;         ///< metrics::Bleu of their text, 0 to 100
  double chrf = 0;         ///< metrics::Chrf of their text, 0 to 100
};

/// The result of a validation.
struct ValidationReport {
  std::int64_t step = 0;
  double loss = 0;                      ///< -log p per target token, eos counted
  double perplexity = 0;                ///< exp(loss)
  double accuracy = 0;                  ///< share of target tokens with the largest logit
  std::optional<AnswerScores> answers;  ///< if training.keep_best names one of these
  double metric = 0;      ///< what training.keep_best names, to be minimised: ValidationMetric
  bool improved = false;  ///< the best so far, kept as <output>/best
};

/// A number that training.keep_best can name.
struct ValidationMetric {
  std::string_view key;   ///< as the configuration and TensorBoard have it: "exact_match"
  std::string_view name;  ///< for people: "exact match"
  bool of_answers;        ///< whether it takes AnswerScores
  bool higher_is_better;
  double (*value)(const ValidationReport&);

  /// Turns a value into the number to be minimised, and back.
  double minimised(double number) const { return higher_is_better ? -number : number; }
};

std::span<const ValidationMetric> validation_metrics();
/// Null if there is none of that key.
const ValidationMetric* find_validation_metric(std::string_view key);

}  // namespace sluice::training
