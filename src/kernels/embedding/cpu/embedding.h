#pragma once

#include "kernels/embedding/embedding.h"

/// The CPU leaves of embedding.h: shapes and dtypes are checked already.
namespace sluice::kernels::embedding::cpu {

void gather(runtime::Stream& stream, const Tensor& table, const Tensor& tokens, const Tensor& out);
void gather_backward(runtime::Stream& stream, const GatherBackwardArgs& args);

}  // namespace sluice::kernels::embedding::cpu
