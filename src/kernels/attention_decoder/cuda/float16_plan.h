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
/// `in_one_launch`: forward runs all steps in one launch, which persistent::refuse must not refuse
/// for in_float16.
std::unique_ptr<Plan> make_float16_plan(const Descriptor& descriptor, std::string_view name,
                                        bool in_one_launch = false);
/// What such a plan's steps are planned for.
Descriptor in_float16(const Descriptor& descriptor);

}  // namespace sluice::kernels::attention_decoder::cuda
