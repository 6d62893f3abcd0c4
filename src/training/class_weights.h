#pragma once

#include <string>
#include <vector>

#include "data/examples.h"
#include "data/labels.h"
#include "models/class_weights.h"
#include "training/train_config.h"
#include "training/train_data.h"

namespace sluice::training {

/// What training.class_weights, `text`, says of each label: numbers by label ("spam=3, ham=0.5";
/// those left out have 1), or "balanced": of K labels and N targets in `examples`, N / (K n) for
/// one that comes n times, so that all labels weigh the same and a target 1 in the mean; one that
/// never comes has 1. Throws ErrorCode::kInvalidArgument for what is no list, a label that is none
/// or stands there twice, and a number that isn't finite or is below 0.
std::vector<float> class_weights_of(const std::string& text, const data::Labels& labels,
                                    const data::Examples& examples);

/// Gives a model's classes those weights, if there are any. Waits for the device then.
void set_class_weights(const runtime::Context& context, const TrainConfig& config,
                       const TrainData& data, models::ClassWeights& weights);

}  // namespace sluice::training
