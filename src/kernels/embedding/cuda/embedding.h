#pragma once

#include "kernels/embedding/leaves.h"

/// The CUDA leaves of embedding.h: shapes and dtypes are checked already. They give the bits of the
/// cpu leaves, but for gradients of a table of few rows (few_rows.h).
namespace sluice::kernels::embedding::cuda {

void gather(Stream& stream, const GatherArgs& args);
void gather_each(Stream& stream, std::span<const GatherArgs> all);
void scatter_each(Stream& stream, std::span<const GatherArgs> all);
void gather_backward(Stream& stream, const GatherBackwardArgs& args);

extern const Leaves kLeaves;

}  // namespace sluice::kernels::embedding::cuda
