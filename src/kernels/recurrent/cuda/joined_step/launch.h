#pragma once

#include "kernels/recurrent/cuda/cell_kernels.h"
#include "kernels/recurrent/cuda/fused_step.h"

namespace sluice::kernels::recurrent::cuda::joined_step {

/// Whether a layer's only step of inference is faster as one kernel, whose blocks have whole tiles
/// of rows and units, than as products of cuBLASLt and a pointwise kernel: a pure function of
/// shape, dtype and GPU model. Of fewer rows StepKernels::forward_with_input may be faster than
/// both.
bool wins(const Descriptor& descriptor, std::int64_t rows, const runtime::cuda::GpuProperties& gpu);

/// Queues the step: the products of the input and of h, and the cell, of which args.input and
/// args.recurrent aren't read. What is float32 and y begin at multiples of eight bytes.
/// `behind_step`: what the stream was given last is such a step too, and all that this one reads
/// but the input was there before that one began; then this one may begin while that one ends.
void queue(cudaStream_t stream, const CellKind& kind, bool behind_step, const StepProduct& input,
           const StepProduct& state, const CellForwardArgs& args);

}  // namespace sluice::kernels::recurrent::cuda::joined_step
