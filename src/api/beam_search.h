#pragma once

#include "api/kept_plans.h"
#include "data/tokenizer.h"
#include "models/language_model.h"
#include "sluice/language_model.h"

namespace sluice::api {

/// LanguageModel::beam and LanguageModel::read. All must outlive what they return.
Beam beam_search(const runtime::Context& context, const models::LanguageModel& model,
                 KeptPlans& kept, const data::Tokenizer& tokenizer, const BeamStart& start,
                 const BeamStepOptions& options);
/// `prompts` are the tokens of each text, the start mark first.
RowStates read_states(const runtime::Context& context, const models::LanguageModel& model,
                      KeptPlans& kept, std::span<const std::vector<std::int32_t>> prompts,
                      const FeatureVectors& features);

}  // namespace sluice::api
