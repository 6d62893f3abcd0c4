#pragma once

namespace sluice::runtime {

/// Identifies the headers that the core and the CUDA part share, and how they were compiled. Each
/// of the two libraries has its own, so it is hidden from the other.
[[gnu::visibility("hidden")]] const char* build_id();

}  // namespace sluice::runtime
