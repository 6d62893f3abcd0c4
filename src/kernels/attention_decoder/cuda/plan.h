#pragma once

#include "kernels/attention_decoder/attention_decoder.h"

namespace sluice::kernels::attention_decoder::cuda {

/// A plan whose steps are queued one after another: for each a product a layer and one for the
/// output (and the additive query), with all between them fused into kernels. S is the storage.
template <typename S>
std::unique_ptr<Plan> make_plan(const Descriptor& descriptor, std::string_view name);

}  // namespace sluice::kernels::attention_decoder::cuda
