#pragma once

#include <span>

#include "kernels/recurrent/recurrent.h"

namespace sluice::kernels::recurrent::cpu {

/// What runs on host memory, fastest first.
std::span<const Candidate> candidates();

}  // namespace sluice::kernels::recurrent::cpu
