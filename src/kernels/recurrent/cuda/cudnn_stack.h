#pragma once

#include <functional>

#include "kernels/recurrent/recurrent.h"

/// cuDNN takes a stack only if its layers are alike. Others run as one call a layer.
namespace sluice::kernels::recurrent::cuda {

/// `make_layer` gives the plan of one layer. For inference.
std::unique_ptr<Plan> make_stack_of_layers(
    const Descriptor& descriptor,
    const std::function<std::unique_ptr<Plan>(const Descriptor&)>& make_layer);

}  // namespace sluice::kernels::recurrent::cuda
