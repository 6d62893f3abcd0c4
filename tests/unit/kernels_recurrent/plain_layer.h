#pragma once

#include <string>

#include "unit/kernels_recurrent/stack_case.h"

namespace sluice::kernels::recurrent::testing {

/// What anyone would write first for a stack of one layer and direction: weights, x and h rounded
/// to the precision, products and cell states in float32 summed one after the other, the C
/// library's activations. TF32 cuts the factors of products off, as tensor cores do. y [T, B, H].
std::vector<double> plain_outputs(const StackCase& stack, const std::string& precision);

}  // namespace sluice::kernels::recurrent::testing
