#pragma once

#include <memory>
#include <optional>
#include <string>

#include "kernels/recurrent/recurrent.h"

/// oneDNN's own LSTM and GRU (its LBR-GRU resets after the product, as ours does), to compare with.
/// Weights are reordered to the layout it asks for; x and y go in and out as they are.
/// It runs exactly the capacity it was planned for, full lengths only, without a projection,
/// dropout or the cell states of every step.
namespace sluice::kernels::recurrent::cpu {

std::optional<std::string> refuse_onednn(const Descriptor& descriptor, const runtime::Device&);

std::unique_ptr<Plan> create_onednn(const Descriptor& descriptor, const runtime::Device&);

}  // namespace sluice::kernels::recurrent::cpu
