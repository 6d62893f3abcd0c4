#pragma once

#include <filesystem>
#include <span>

#include "model_files/loaded_model.h"

namespace sluice::training {

using model_files::LoadedModel;
using runtime::Context;

/// A model whose weights are the means of those of the checkpoints (folders or model.safetensors),
/// summed in double precision and rounded once; its configuration is the first one's. Two are in
/// memory at a time. Throws ErrorCode::kInvalidArgument for fewer than two checkpoints and for
/// those of another architecture or vocabulary than the first; otherwise as
/// model_files::load_model.
LoadedModel average_models(const Context& context,
                           std::span<const std::filesystem::path> checkpoints);

}  // namespace sluice::training
