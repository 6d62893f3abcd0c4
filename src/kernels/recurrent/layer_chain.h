#pragma once

#include <string_view>

#include "kernels/recurrent/recurrent.h"

/// Stacks whose layers differ in their hidden widths, as Keras's do: a plan for each run of layers
/// that are alike, one after the other.
namespace sluice::kernels::recurrent {

/// `descriptor` has widths that differ. The implementation is asked of each part; the plan's name
/// joins theirs with "+", and `declined` says for which layers.
Choice chain_layers(const Context& context, const Descriptor& descriptor,
                    std::string_view implementation);

}  // namespace sluice::kernels::recurrent
