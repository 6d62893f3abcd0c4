#pragma once

#include <cstddef>
#include <memory>

#include "distributed/communicator.h"

namespace sluice::distributed::cuda {

/// A window in the memory of this process's GPU `gpu` and those of the other ranks, as
/// Communicator::open_window. Throws ErrorCode::kDevice if a GPU can't reach another's memory.
std::unique_ptr<Window> open_window(Communicator& ranks, int gpu, std::size_t bytes,
                                    std::size_t numbers);

}  // namespace sluice::distributed::cuda
