#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "data/batches.h"
#include "training/plan_cache.h"

namespace sluice::training {

/// The result of a validation.
struct ValidationReport {
  std::int64_t step = 0;
  double loss = 0;        ///< -log p per target token, eos counted
  double perplexity = 0;  ///< exp(loss)
  double accuracy = 0;    ///< share of target tokens with the largest logit
  std::optional<double> exact_match;
  bool improved = false;  ///< the best so far, kept as <output>/best

  /// The number to be minimised: the loss, or the negated share of exact matches.
  double metric() const { return exact_match ? -*exact_match : loss; }
};

/// Measures a model on examples that it isn't trained on.
class Validation {
 public:
  /// `examples` must outlive it; with `exact_match`, each is decoded too.
  Validation(const data::PairCorpus& examples, const data::BatchOptions& options, bool exact_match);

  /// The model as it is after `step`; absent if `*stop` became true meanwhile (`stop` may be null).
  /// Waits for the device. Throws ErrorCode::kNumeric for a loss that is not finite.
  std::optional<ValidationReport> run(const Context& context, const models::Seq2Seq& model,
                                      PlanCache& plans, std::int64_t step,
                                      const std::atomic<bool>* stop) const;

 private:
  const data::PairCorpus* examples_;
  std::vector<data::BatchRows> batches_;
  bool exact_match_;
};

}  // namespace sluice::training
