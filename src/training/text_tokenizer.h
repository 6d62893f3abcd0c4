#pragma once

#include <cstdint>

#include "data/train_tokenizer.h"
#include "training/train_config.h"

namespace sluice::training {

/// How [tokenizer] asks to train a tokenizer of up to `vocabulary` ids.
data::TokenizerOptions tokenizer_options(const TrainConfig& config, std::int64_t vocabulary);

}  // namespace sluice::training
