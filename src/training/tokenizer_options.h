#pragma once

#include "data/train_tokenizer.h"
#include "training/train_config.h"

namespace sluice::training {

/// What [tokenizer] says of a tokenizer of at most (of SentencePiece: of) `vocabulary` ids.
data::TokenizerOptions tokenizer_options(const TrainConfig& config, std::int64_t vocabulary);

}  // namespace sluice::training
