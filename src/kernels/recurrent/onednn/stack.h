#pragma once

#include "kernels/recurrent/recurrent.h"

/// oneDNN's own LSTM and GRU (its LBR-GRU resets after the product, as ours does), to compare with.
/// Weights are reordered to the layout it asks for; x and y go in and out as they are.
/// It runs exactly the capacity it was planned for, full lengths only, without a projection,
/// dropout or the cell states of every step.
namespace sluice::kernels::recurrent::onednn {

extern const Candidate kStack;

}  // namespace sluice::kernels::recurrent::onednn
