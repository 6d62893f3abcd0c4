#pragma once

#include "kernels/attention_decoder/attention_decoder.h"

/// What every implementation refuses before it queues anything: wrong extents, shapes, dtypes or
/// strides. Errors are ErrorCode::kInvalidArgument and name the tensor.
namespace sluice::kernels::attention_decoder {

void check_weights(const Descriptor& descriptor, const Weights& weights);
void check_forward(const Descriptor& descriptor, const ForwardArgs& args);
void check_backward(const Descriptor& descriptor, const BackwardArgs& args);
void check_prepare(const Descriptor& descriptor, const Plan& plan, const PrepareArgs& args);
void check_step(const Descriptor& descriptor, const Plan& plan, const StepArgs& args);
/// Refuses to run without the memory that the plan asks for; reserve only if `with_reserve`.
void check_memory(const Plan& plan, const Memory& memory, bool with_reserve);

}  // namespace sluice::kernels::attention_decoder
