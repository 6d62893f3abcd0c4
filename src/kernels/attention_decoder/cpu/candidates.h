#pragma once

#include <span>

#include "kernels/attention_decoder/attention_decoder.h"

namespace sluice::kernels::attention_decoder::cpu {

/// What runs on host memory, fastest first.
std::span<const Candidate> candidates();

}  // namespace sluice::kernels::attention_decoder::cpu
