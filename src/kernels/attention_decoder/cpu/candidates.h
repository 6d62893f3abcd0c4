#pragma once

#include "kernels/attention_decoder/attention_decoder.h"

namespace sluice::kernels::attention_decoder::cpu {

/// What runs on host memory, fastest first.
const Candidates& candidates();

}  // namespace sluice::kernels::attention_decoder::cpu
