#pragma once

#include <cstdint>

#include "runtime/context.h"

namespace sluice::runtime {

/// Makes the calling thread and the one that runs the context's kernels use this many OpenMP
/// threads, and no fewer at OpenMP's own choice (0: as many as OpenMP takes); more than
/// OMP_THREAD_LIMIT allows are not to be had. Returns how many that is.
std::int64_t use_threads(const Context& context, std::int64_t threads);

}  // namespace sluice::runtime
