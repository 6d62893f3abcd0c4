#pragma once

#include <cstdint>

#include "runtime/context.h"

namespace sluice::training {

/// Makes the calling thread and the one that runs the context's kernels use this many OpenMP
/// threads (0: as many as OpenMP takes) and returns how many that is.
std::int64_t use_threads(const runtime::Context& context, std::int64_t threads);

}  // namespace sluice::training
