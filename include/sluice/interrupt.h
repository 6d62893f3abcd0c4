#pragma once

#include <functional>

namespace sluice {

/// Called often during long calls, between steps and batches, on the thread that called the
/// library. What it throws ends the call and comes out of it; the object that was called stays
/// usable. It should be quick. Empty: nothing is called.
using InterruptCheck = std::function<void()>;

}  // namespace sluice
