#pragma once

#include "kernels/attention_decoder/attention_decoder.h"

namespace sluice::kernels::attention_decoder::cuda {

/// A plan whose steps are queued one after another: for each a product a layer and one for the
/// output (and the additive query), with all between them fused into kernels. S is the storage.
/// `in_one_launch`: forward and backward run all steps in one launch each, which persistent::refuse
/// must not refuse.
template <typename S>
std::unique_ptr<Plan> make_plan(const Descriptor& descriptor, std::string_view name,
                                bool in_one_launch = false);

}  // namespace sluice::kernels::attention_decoder::cuda
