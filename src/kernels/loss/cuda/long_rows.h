#pragma once

#include <cstddef>

#include "kernels/loss/leaves.h"

namespace sluice::kernels::loss::cuda {

/// Cross entropy where rows are long: into the results of the tokens, which are still to be added
/// up, and the gradient. What a row's sums are depends on its length and type alone, to the bit.
/// Returns what is to be added up by columns for args.d_bias: sums of blocks in the stream's
/// workspace, or the gradient itself; empty if there is none.
Tensor long_rows(Stream& stream, const CrossEntropyArgs& args, TokenResult* results);

}  // namespace sluice::kernels::loss::cuda
