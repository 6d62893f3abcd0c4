#include "api/scoring.h"

#include "data/batches.h"
#include "model_files/batch_upload.h"
#include "model_files/plan_cache.h"
#include "models/token_scorer.h"

namespace sluice {
namespace {

// Tokens of one batch, padding counted.
constexpr std::int64_t kScoreTokens = 8192;

}  // namespace

std::vector<Scored> api::score(const runtime::Context& context, const models::Model& model,
                               const data::Examples& examples) {
  std::vector<Scored> results(static_cast<std::size_t>(examples.size()));
  if (results.empty()) return results;
  const auto lengths = examples.lengths();
  const auto options =
      data::with_room_for(lengths, {.max_tokens = kScoreTokens, .max_rows = 256, .pool = 1});
  model_files::PlanCache plans(model);
  model_files::BatchUpload uploads;
  for (const data::BatchRows& rows : data::sorted_batches(lengths, options)) {
    const data::Batch assembled = examples.assemble(rows);
    const models::Batch batch = uploads.upload(context, assembled);
    auto& plan = dynamic_cast<models::TokenScorer&>(plans.plan(context, batch.extent, false));
    const std::vector<double> scores =
        context.download<double>(plan.score(context, plans.arena(), batch));
    for (std::size_t n = 0; n < scores.size(); ++n) {
      results[static_cast<std::size_t>(rows[n % rows.size()])].log_probability += scores[n];
    }
    for (std::size_t r = 0; r < rows.size(); ++r) {
      results[static_cast<std::size_t>(rows[r])].tokens = assembled.target_lengths[r];
    }
  }
  return results;
}

}  // namespace sluice
