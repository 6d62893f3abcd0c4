#pragma once

#include <string_view>

namespace sluice::kernels::recurrent {

/// The CPU's implementation that needs no instructions of its own: loops in plain C++, a step at a
/// time, which convert each number of 16 bits. The last in the CPU's list of candidates.
inline constexpr std::string_view kPortable = "portable";

}  // namespace sluice::kernels::recurrent
