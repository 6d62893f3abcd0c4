#include "training/validation.h"

#include <array>
#include <cmath>

#include "base/check.h"
#include "kernels/loss/loss.h"
#include "training/batch_upload.h"
#include "training/exact_match.h"

namespace sluice::training {

namespace loss = kernels::loss;

Validation::Validation(const data::PairCorpus& examples, const data::BatchOptions& options,
                       bool exact_match)
    : examples_(&examples),
      batches_(data::sorted_batches(data::lengths_of(examples), options)),
      exact_match_(exact_match) {}

std::optional<ValidationReport> Validation::run(const Context& context,
                                                const models::Seq2Seq& model, PlanCache& plans,
                                                std::int64_t step,
                                                const std::atomic<bool>* stop) const {
  const auto stop_asked = [&] { return stop != nullptr && *stop; };
  BatchUpload upload;
  std::array<double, loss::kSums> total{};
  for (const data::BatchRows& rows : batches_) {
    if (stop_asked()) return std::nullopt;
    const models::Seq2SeqBatch batch =
        upload.upload(context, data::assemble_pairs(*examples_, rows));
    models::Seq2SeqTraining& plan = plans.plan(context, batch.extent, false);
    const std::vector<double> sums =
        context.download<double>(plan.evaluate(context, plans.arena(), batch, {}));
    for (std::size_t i = 0; i < total.size(); ++i) total[i] += sums[i];
  }
  ValidationReport report;
  report.step = step;
  report.loss = total[loss::kNll] / total[loss::kTokens];
  report.perplexity = std::exp(report.loss);
  report.accuracy = total[loss::kCorrect] / total[loss::kTokens];
  if (!std::isfinite(report.loss)) {
    base::fail(ErrorCode::kNumeric, "the validation loss after step {} is {}: training diverged",
               step, report.loss);
  }
  if (exact_match_) {
    report.exact_match = exact_match(context, model, *examples_, stop);
    if (stop_asked()) return std::nullopt;
  }
  return report;
}

}  // namespace sluice::training
