#pragma once

#include <span>
#include <string>

#include "data/frame_corpus.h"
#include "models/features_config.h"
#include "sluice/feature_model.h"

namespace sluice::api {

/// Throws ErrorCode::kInvalidArgument for what is no sequence of frames of the model at `path`, or
/// has resets that it does not take; errors call it `name`.
void require_frames(const std::string& path, const models::FeaturesConfig& config,
                    const Frames& frames, const std::string& name);

/// Sequences as examples; throws as require_frames, with the number of the sequence from 0.
data::FrameCorpus frame_corpus(const std::string& path, const models::FeaturesConfig& config,
                               std::span<const Frames> sequences);

}  // namespace sluice::api
