#include "training/validation_report.h"

namespace sluice::training {
namespace {

using R = ValidationReport;

const ValidationMetric kMetrics[] = {
    {"loss", "loss", false, false, [](const R& r) { return r.loss; }},
    {"perplexity", "perplexity", false, false, [](const R& r) { return r.perplexity; }},
    {"exact_match", "exact match", true, true, [](const R& r) { return r.answers->exact_match; }},
    {"bleu", "BLEU", true, true, [](const R& r) { return r.answers->bleu; }},
    {"chrf", "chrF", true, true, [](const R& r) { return r.answers->chrf; }},
};

}  // namespace

std::span<const ValidationMetric> validation_metrics() { return kMetrics; }

const ValidationMetric* find_validation_metric(std::string_view key) {
  for (const ValidationMetric& metric : kMetrics) {
    if (metric.key == key) return &metric;
  }
  return nullptr;
}

}  // namespace sluice::training
