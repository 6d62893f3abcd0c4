#pragma once

#include "kernels/attention_decoder/attention_decoder.h"

namespace sluice::kernels::attention_decoder::cuda {

/// The implementations on a GPU, the one to prefer first.
extern const Candidates kCandidates;

}  // namespace sluice::kernels::attention_decoder::cuda
