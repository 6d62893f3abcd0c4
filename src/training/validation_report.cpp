#include "training/validation_report.h"

#include <fmt/format.h>

namespace sluice::training {

using R = ValidationReport;

std::string show_score(double value) { return fmt::format("{:.2f}", value); }
std::string show_number(double value) { return fmt::format("{:.4f}", value); }
std::string show_share(double value) { return fmt::format("{:.2f}%", 100 * value); }

const ValidationMetric kLossMetric{
    .key = "loss", .name = "loss", .show = show_number, .of_sums = [](const R& r) {
      return r.loss;
    }};
const ValidationMetric kPerplexityMetric{
    .key = "perplexity",
    .name = "perplexity",
    .show = [](double value) { return fmt::format("{:.3f}", value); },
    .of_sums = [](const R& r) { return r.perplexity; }};
const ValidationMetric kAccuracyMetric{.key = "accuracy",
                                       .name = "accuracy",
                                       .higher_is_better = true,
                                       .show = show_share,
                                       .of_sums = [](const R& r) { return r.accuracy; }};

std::optional<double> ValidationReport::value(std::string_view key) const {
  for (const Measured& one : measured) {
    if (one.metric->key == key) return one.value;
  }
  return std::nullopt;
}

}  // namespace sluice::training
