#pragma once

#include "kernels/recurrent/recurrent.h"

namespace sluice::kernels::recurrent::cpu {

/// What runs on host memory, fastest first.
const Candidates& candidates();

}  // namespace sluice::kernels::recurrent::cpu
