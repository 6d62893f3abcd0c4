#pragma once

#include <string>
#include <vector>

#include "training/checkpoint.h"
#include "training/train_config.h"

namespace sluice::training {

/// The vocabularies that a fresh run takes from the checkpoint `config.initial.from`: those whose
/// words the parameters taken from it are about. One that the run makes itself is null.
/// Throws as model_files::load_tokenizers, and ErrorCode::kInvalidArgument if they are not of the
/// kind that the configuration asks for.
Tokenizers initial_tokenizers(const TrainConfig& config);

/// Refuses (ErrorCode::kInvalidArgument) a quantized checkpoint as config.initial.from, which can't
/// be trained from; looks at its header alone. Errors as io::narrowest_dtype.
void require_trainable_start(const TrainConfig& config);

/// Gives the parameters of a new model, which fits `tokenizers`, the values of what config.initial
/// names, once and for all: a resumed run has them in its own checkpoint. Returns lines that tell
/// people what was taken. Throws ErrorCode::kInvalidArgument, with what would fit, if names or
/// shapes or words differ; else as io::read_model and data::read_word_vectors.
std::vector<std::string> set_initial_weights(const Context& context, const TrainConfig& config,
                                             const Tokenizers& tokenizers,
                                             const layers::Parameters& parameters);

}  // namespace sluice::training
