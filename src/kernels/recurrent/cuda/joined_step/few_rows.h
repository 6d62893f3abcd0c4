#pragma once

#include "kernels/recurrent/cuda/cell_kernels.h"
#include "kernels/recurrent/cuda/fused_step.h"

namespace sluice::kernels::recurrent::cuda::joined_step {

/// Whether a layer's only step in float32 is faster as one kernel of few rows, whose warps sum up
/// whole lines of weights, than as products of cuBLASLt and a pointwise kernel: a pure function of
/// shape, dtype and GPU model. `input`: how wide the layer's input is.
bool few_rows_win(const Descriptor& descriptor, std::int64_t input, std::int64_t rows,
                  const runtime::cuda::GpuProperties& gpu);

/// Queues the step of an LSTM, or of a GRU that resets after the product, in float32: the products
/// of the input and of h, and the cell, of which args.input and args.recurrent aren't read. Factors
/// begin at multiples of kCopyBytes, and lines lie next to each other. `behind_step`: the stream
/// was given such a step last, so that this one may read its weights before that ends.
void queue_few_rows(cudaStream_t stream, CellType cell, bool behind_step, const StepProduct& input,
                    const StepProduct& state, const CellForwardArgs& args);

}  // namespace sluice::kernels::recurrent::cuda::joined_step
