#pragma once

#include <string_view>

#include "models/stack_config.h"
#include "training/train_config.h"

namespace sluice::training {

/// The stack that [model] asks for. Throws ErrorCode::kInvalidArgument for widths and projections
/// that aren't numbers.
models::StackConfig stack_config_of(const ModelConfig& model);

}  // namespace sluice::training
