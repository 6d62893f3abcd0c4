#pragma once

#include "kernels/recurrent/recurrent.h"

namespace sluice::kernels::recurrent::cuda {

/// What runs on a GPU, fastest first.
extern const Candidates kCandidates;

}  // namespace sluice::kernels::recurrent::cuda
