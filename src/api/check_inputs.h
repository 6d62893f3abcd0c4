#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "data/examples.h"
#include "model_files/loaded_model.h"
#include "runtime/context.h"
#include "sluice/check.h"

namespace sluice::api {

class TextSegmentation;

/// Texts that a seq2seq model answers with, one for each of these.
using Answer = std::function<std::vector<std::string>(const std::vector<std::string>& texts)>;

/// Inputs as examples of the model at `path`. Throws ErrorCode::kInvalidArgument if there are none,
/// or some that are not for its kind.
std::unique_ptr<data::Examples> examples_of(const runtime::Context& context,
                                            const std::string& path,
                                            const model_files::LoadedModel& loaded,
                                            const TextSegmentation& segmentation,
                                            const CheckInputs& inputs, const Answer& answer);

}  // namespace sluice::api
