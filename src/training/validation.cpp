#include "training/validation.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/check.h"
#include "kernels/loss/loss.h"
#include "model_files/batch_upload.h"

namespace sluice::training {

namespace loss = kernels::loss;
using Source = ValidationMetric::Source;

namespace {

/// Every metric's value; `of_answers` are those of the metrics that aren't of sums, if known.
std::vector<Measured> measure(std::span<const ValidationMetric> metrics,
                              const ValidationReport& sums, std::span<const double> of_answers) {
  std::vector<Measured> measured;
  std::size_t next = 0;
  for (const ValidationMetric& metric : metrics) {
    if (metric.source == Source::kSums) {
      // Not every loss knows every number: values are neither right nor wrong.
      const double value = metric.of_sums(sums);
      if (!std::isnan(value)) measured.push_back({&metric, value});
    } else if (!of_answers.empty()) {
      measured.push_back({&metric, of_answers[next++]});
    }
  }
  SLUICE_ASSERT(next == of_answers.size());
  return measured;
}

/// kernels::loss::Sum of them.
std::vector<double> evaluate(const Context& context, const model_files::PlanCache& plans,
                             models::TrainingPlan& plan, const models::Batch& batch) {
  return context.download<double>(plan.evaluate(context, plans.arena(), batch, {}));
}

}  // namespace

double mean_loss(const Context& context, model_files::PlanCache& plans,
                 const data::Examples& examples, std::span<const std::int64_t> rows) {
  model_files::BatchUpload upload;
  const models::Batch batch = upload.upload(context, examples.assemble(rows));
  models::TrainingPlan& plan = plans.uncounted_plan(context, batch.extent);
  const std::vector<double> sums = evaluate(context, plans, plan, batch);
  return sums[loss::kNll] / sums[loss::kTokens];
}

Validation::Validation(const TrainData& data, const data::BatchOptions& batches, const Task& task,
                       std::string_view metric)
    : data_(&data),
      batches_(data::sorted_batches(data.validation->lengths(),
                                    data::in_their_order(*data.validation, batches))),
      task_(&task),
      metric_(task.find_metric(metric)) {
  SLUICE_ASSERT(metric_ != nullptr);
  SLUICE_CHECK(metric_->source == Source::kSums || data.scorer,
               "validation by {} scores answers, but the {} examples to validate on don't say what "
               "is right",
               metric_->name, data.validation->size());
}

bool Validation::scores_answers() const {
  const auto metrics = task_->metrics();
  return data_->scorer && (metric_->source == Source::kSearch ||
                           std::any_of(metrics.begin(), metrics.end(), [](const auto& metric) {
                             return metric.source == Source::kAnswers;
                           }));
}

std::optional<ValidationReport> Validation::run(const Context& context, const models::Model& model,
                                                model_files::PlanCache& plans, std::int64_t step,
                                                const std::atomic<bool>* stop,
                                                const base::Watch& watch) const {
  const std::unique_ptr<AnswerScorer> scorer = scores_answers() ? data_->scorer() : nullptr;
  model_files::BatchUpload upload;
  std::array<double, loss::kSums> total{};
  base::WatchedItems watched(watch, "validating", std::ssize(batches_));
  for (const data::BatchRows& rows : batches_) {
    context.check_interrupt();
    if (stop != nullptr && *stop) return std::nullopt;
    const data::Batch examples = data_->validation->assemble(rows);
    const models::Batch batch = upload.upload(context, examples);
    models::TrainingPlan& plan = plans.plan(context, batch.extent, false);
    const std::vector<double> sums = evaluate(context, plans, plan, batch);
    for (std::size_t i = 0; i < total.size(); ++i) total[i] += sums[i];
    if (scorer) scorer->add(context, plans.arena(), plan, examples);
    watched.one_done();
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
  std::vector<double> of_answers;
  if (scorer) {
    auto scores = scorer->finish(context, model, stop, watch);
    if (!scores) return std::nullopt;
    of_answers = std::move(*scores);
  }
  report.measured = measure(task_->metrics(), report, of_answers);
  report.metric = metric_->minimised(*report.value(metric_->key));
  return report;
}

}  // namespace sluice::training
