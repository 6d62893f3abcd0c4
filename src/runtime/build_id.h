#pragma once

namespace sluice::runtime {

/// Identifies the headers that libsluice.so and its parts share, and how they were compiled. Each
/// of these libraries has its own, so it is hidden from the others.
[[gnu::visibility("hidden")]] const char* build_id();

}  // namespace sluice::runtime
