#pragma once

#include <vector>

#include "api/kept_plans.h"
#include "data/examples.h"
#include "sluice/sequence_model.h"

namespace sluice::api {

/// log p of the targets of every example, in order, by a model whose plans are
/// models::TokenScorers.
std::vector<Scored> score(const runtime::Context& context, KeptPlans& kept,
                          const data::Examples& examples);

}  // namespace sluice::api
