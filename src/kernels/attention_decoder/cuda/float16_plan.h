#pragma once

#include "kernels/attention_decoder/attention_decoder.h"

namespace sluice::kernels::attention_decoder::cuda {

/// Why the plan below is not for this, or nothing.
std::optional<std::string> refuse_float16(const Descriptor& descriptor);

/// A plan that trains in TF32 by the steps of float16, which has TF32's eleven significant bits and
/// half its bytes, and which tensor cores multiply twice as fast. Sums, cell states, softmax and
/// gradients of weights are float32, as they are there. Weights, h, a and what is attended to lie
/// in float16's range by themselves; gradients are brought into it by a power of two, made of the
/// largest number that flows in. It has no single steps, which inference alone asks for.
/// Forward runs all steps in one launch where that takes them.
std::unique_ptr<Plan> make_float16_plan(const Descriptor& descriptor, const runtime::Device& device,
                                        std::string_view name);

}  // namespace sluice::kernels::attention_decoder::cuda
