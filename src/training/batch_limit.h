#pragma once

#include <string_view>

#include "data/examples.h"
#include "training/train_config.h"

namespace sluice::training {

/// Refuses (ErrorCode::kInvalidArgument) an example that alone is larger than a whole batch may be
/// (training.max_tokens), which errors call `name`. Whoever reads examples one by one calls it for
/// each to train on, so that an hour's work isn't done first. Running text, which is cut to fit,
/// passes.
void require_in_batch(const TrainConfig& config, const data::ExampleLengths& lengths,
                      std::string_view name);
/// "training example 17"; `index` counts from 0, without what is left out.
std::string example_name(std::string_view part, std::int64_t index);
/// Of all of a part.
void require_in_batches(const TrainConfig& config, const data::Examples& examples,
                        std::string_view part);

}  // namespace sluice::training
