#pragma once

#include "kernels/recurrent/cuda/stack_step/arguments.h"
#include "kernels/recurrent/recurrent.h"
#include "runtime/cuda/cuda_device.h"

namespace sluice::kernels::recurrent::cuda::stack_step {

/// Whether the steps of a stack's layers can run as such kernels, and are faster so than beside
/// each other: a pure function of shape, dtype and GPU model.
bool wins(const Descriptor& descriptor, std::int64_t rows, const runtime::cuda::GpuProperties& gpu);

/// So many steps of a layer for kTileRows rows fill the GPU, or a kernel; at least one if wins().
std::int64_t steps_at_a_time(std::int64_t hidden, const runtime::cuda::GpuProperties& gpu);

/// Queues the steps. `behind_step`: what the stream was given last are such steps too, by the same
/// weights; then these may begin while those end.
void queue(runtime::cuda::CudaStream& stream, bool behind_step, const StackStep& args);

}  // namespace sluice::kernels::recurrent::cuda::stack_step
