#pragma once

#include <string_view>
#include <vector>

#include "training/train_config.h"

namespace sluice::training {

/// What model.gate_bias ("f=1, i=-1") and model.forget_bias add to the biases of each gate of a
/// cell, in the order of docs/equations.md; empty if nothing. Throws ErrorCode::kInvalidArgument
/// for what is no list, a gate that the cell lacks or that stands there twice, and a number that
/// isn't finite.
std::vector<double> gate_bias_of(const InitialConfig& config, std::string_view cell);

}  // namespace sluice::training
