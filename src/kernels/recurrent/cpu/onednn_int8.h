#pragma once

#include <memory>
#include <optional>
#include <string>

#include "kernels/recurrent/recurrent.h"

/// oneDNN's own LSTM with 8-bit weights and activations as a peer: its scale of activations is one
/// for all and given beforehand, here that of numbers from -1 to 1, which h is and a benchmark's x.
namespace sluice::kernels::recurrent::cpu {

std::optional<std::string> refuse_onednn_int8(const Descriptor& descriptor,
                                              const runtime::Device& device);
std::unique_ptr<Plan> create_onednn_int8(const Descriptor& descriptor,
                                         const runtime::Device& device);

}  // namespace sluice::kernels::recurrent::cpu
