#pragma once

#include <memory>

#include "kernels/recurrent/cuda/rung.h"

namespace sluice::kernels::recurrent::cuda {

/// The plan of a rung on the current device.
std::unique_ptr<Plan> make_ladder_plan(const Descriptor& descriptor, const Rung& rung);

}  // namespace sluice::kernels::recurrent::cuda
