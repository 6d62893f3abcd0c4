#pragma once

#include <string_view>
#include <vector>

#include "training/train_config.h"

namespace sluice::training {

/// A gate that is so biased is 0 or 1 in float32, whatever it sees, and learns nothing more.
inline constexpr double kMostGateBias = 100;

/// What model.gate_bias ("f=1, i=-1") and model.forget_bias add to the biases of each gate of a
/// cell, in the order of docs/equations.md; empty if nothing. Throws ErrorCode::kInvalidArgument
/// for what is no list, a gate that the cell lacks or that stands there twice, and a number beyond
/// kMostGateBias.
std::vector<double> gate_bias_of(const InitialConfig& config, std::string_view cell);

}  // namespace sluice::training
