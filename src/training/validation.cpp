#include "training/validation.h"

#include <array>
#include <cmath>

#include "base/check.h"
#include "kernels/loss/loss.h"
#include "metrics/bleu.h"
#include "metrics/chrf.h"
#include "training/batch_upload.h"
#include "training/greedy_answers.h"

namespace sluice::training {

namespace loss = kernels::loss;

Validation::Validation(const TrainData& data, const data::BatchOptions& batches,
                       const Options& options)
    : data_(&data),
      batches_(data::sorted_batches(data.validation.lengths(), batches)),
      options_(options) {
  SLUICE_CHECK(
      !options.metric->of_answers || data.references.size() == data.validation.target.size(),
      "validation by {} needs the text of all {} references; there are {}", options.metric->name,
      data.validation.size(), data.references.size());
}

AnswerScores Validation::score(const std::vector<std::vector<std::int32_t>>& answers) const {
  metrics::Bleu bleu(options_.bleu_tokenizer);
  metrics::Chrf chrf;
  std::int64_t right = 0;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    right += answers[i] == data_->validation.target[i] ? 1 : 0;
    const std::string text = data_->tokenizers.target->decode(answers[i]);
    bleu.add(text, data_->references[i]);
    chrf.add(text, data_->references[i]);
  }
  return {static_cast<double>(right) / static_cast<double>(answers.size()), bleu.score().score,
          chrf.score()};
}

std::optional<ValidationReport> Validation::run(const Context& context,
                                                const models::Seq2Seq& model, PlanCache& plans,
                                                std::int64_t step,
                                                const std::atomic<bool>* stop) const {
  const auto stop_asked = [&] { return stop != nullptr && *stop; };
  BatchUpload upload;
  std::array<double, loss::kSums> total{};
  for (const data::BatchRows& rows : batches_) {
    if (stop_asked()) return std::nullopt;
    const models::Batch batch = upload.upload(context, data_->validation.assemble(rows));
    models::TrainingPlan& plan = plans.plan(context, batch.extent, false);
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
  if (options_.metric->of_answers) {
    const auto answers = greedy_answers(context, model, data_->validation.source, stop);
    if (!answers) return std::nullopt;
    report.answers = score(*answers);
  }
  report.metric = options_.metric->minimised(options_.metric->value(report));
  return report;
}

}  // namespace sluice::training
