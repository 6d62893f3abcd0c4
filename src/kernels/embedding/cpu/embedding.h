#pragma once

#include "kernels/embedding/leaves.h"

/// The CPU leaves of embedding.h: shapes and dtypes are checked already.
namespace sluice::kernels::embedding::cpu {

void gather(Stream& stream, const GatherArgs& args);
void gather_each(Stream& stream, std::span<const GatherArgs> all);
void scatter_each(Stream& stream, std::span<const GatherArgs> all);
void gather_backward(Stream& stream, const GatherBackwardArgs& args);

inline constexpr Leaves kLeaves{gather, gather_each, scatter_each, gather_backward};

}  // namespace sluice::kernels::embedding::cpu
