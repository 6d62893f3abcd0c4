#pragma once

namespace sluice::kernels::recurrent {

/// The entry of a Context's Tuning by which somebody names the implementation of all recurrent
/// stacks, and of attention decoders where they have one of that name. It goes before what was
/// measured; what a caller of make_plan names goes before it.
inline constexpr const char* kEveryStack = "every recurrent stack";

}  // namespace sluice::kernels::recurrent
