#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "data/batches.h"
#include "metrics/bleu_tokens.h"
#include "training/plan_cache.h"
#include "training/train_data.h"
#include "training/validation_report.h"

namespace sluice::training {

/// Measures a model on examples that it isn't trained on.
class Validation {
 public:
  struct Options {
    const ValidationMetric* metric = nullptr;  ///< what the report's `metric` is
    metrics::BleuTokenizer bleu_tokenizer = metrics::BleuTokenizer::k13a;
  };

  /// On `data.validation`; `data` must outlive it. Throws ErrorCode::kInvalidArgument if the metric
  /// is one of answers, but the examples have no text.
  Validation(const TrainData& data, const data::BatchOptions& batches, const Options& options);

  /// The model as it is after `step`; absent if `*stop` became true meanwhile (`stop` may be null).
  /// Waits for the device. Throws ErrorCode::kNumeric for a loss that is not finite.
  std::optional<ValidationReport> run(const Context& context, const models::Seq2Seq& model,
                                      PlanCache& plans, std::int64_t step,
                                      const std::atomic<bool>* stop) const;

 private:
  AnswerScores score(const std::vector<std::vector<std::int32_t>>& answers) const;

  const TrainData* data_;
  std::vector<data::BatchRows> batches_;
  Options options_;
};

}  // namespace sluice::training
