#pragma once

#include "kernels/recurrent/recurrent.h"

/// oneDNN's own LSTM with 8-bit weights and activations as a peer: its scale of activations is one
/// for all and given beforehand, here that of numbers from -1 to 1, which h is and a benchmark's x.
namespace sluice::kernels::recurrent::onednn {

extern const Candidate kInt8Stack;

}  // namespace sluice::kernels::recurrent::onednn
