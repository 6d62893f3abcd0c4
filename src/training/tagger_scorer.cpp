#include "training/tagger_scorer.h"

#include <string>

#include "models/tagger_training.h"

namespace sluice::training {

void TaggerScorer::add(const Context& context, const runtime::Arena& arena,
                       models::TrainingPlan& plan, const data::Batch& batch) {
  const runtime::Tensor best = dynamic_cast<models::TaggerTraining&>(plan).labels(arena);
  const std::vector<std::int32_t> found = context.download<std::int32_t>(best);
  for (std::int64_t row = 0; row < batch.rows; ++row) {
    std::vector<std::string> predicted, expected;
    for (std::int64_t t = 0; t < batch.source_lengths[static_cast<std::size_t>(row)]; ++t) {
      const auto at = static_cast<std::size_t>(t * batch.rows + row);
      predicted.push_back(labels_->name(found[at]));
      expected.push_back(labels_->name(batch.target_out[at]));
    }
    entities_.add(predicted, expected);
  }
}

std::optional<std::vector<double>> TaggerScorer::finish(const Context&, const models::Model&,
                                                        const std::atomic<bool>*,
                                                        const base::Watch&) {
  const metrics::EntityScore total = entities_.total();
  return std::vector{total.f1(), total.precision(), total.recall()};
}

}  // namespace sluice::training
