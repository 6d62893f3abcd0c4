#pragma once

#include <memory>
#include <vector>

#include "distributed/communicator.h"

namespace sluice::distributed::threads {

/// Ranks that are threads of this process, each on a device of its own that runs host functions
/// ("cpu" or "test"). Every rank must be used by another thread. A rank adds its share of the
/// elements of all ranks, in the order of ranks.
std::vector<std::unique_ptr<Communicator>> make_ranks(std::int64_t count);

}  // namespace sluice::distributed::threads
