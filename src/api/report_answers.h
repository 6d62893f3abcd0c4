#pragma once

#include <string>
#include <string_view>

#include "training/train_data.h"

namespace sluice::api {

/// Of a report page: what a model answers to some of the examples that it is validated on, where
/// its attention looked, and which classes it takes for which, as far as its kind has such things.
/// Empty if there is nothing to show.
std::string answer_sections(const runtime::Context& context, const training::TrainData& data,
                            const models::Model& model);

/// What these sections need of a style sheet.
extern const std::string_view kAnswerStyle;

}  // namespace sluice::api
