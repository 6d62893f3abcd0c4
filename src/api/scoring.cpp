#include "api/scoring.h"

#include "models/token_scorer.h"

namespace sluice {
namespace {

// Of one batch, padding counted.
constexpr std::int64_t kTokens = 8192, kRows = 256;

}  // namespace

std::vector<Scored> api::score(const runtime::Context& context, KeptPlans& kept,
                               const data::Examples& examples) {
  std::vector<Scored> results(static_cast<std::size_t>(examples.size()));
  if (results.empty()) return results;
  model_files::PlanCache& plans = kept.batches;
  const auto score_batch = [&](const data::Batch& host, const models::Batch& batch) {
    auto& plan = dynamic_cast<models::TokenScorer&>(plans.plan(context, batch.extent, false));
    const std::vector<double> scores =
        context.download<double>(plan.score(context, plans.arena(), batch));
    const auto result_of = [&](std::size_t row) -> Scored& {
      return results[static_cast<std::size_t>(host.global_row[row])];
    };
    const std::size_t rows = host.global_row.size();
    for (std::size_t n = 0; n < scores.size(); ++n)
      result_of(n % rows).log_probability += scores[n];
    for (std::size_t r = 0; r < rows; ++r) result_of(r).tokens = host.target_lengths[r];
  };
  kept.each_batch(context, examples, kTokens, kRows, score_batch);
  return results;
}

}  // namespace sluice
