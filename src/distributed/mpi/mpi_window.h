#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "distributed/window.h"

namespace sluice::distributed::mpi {

/// A window on CPUs by MPI's one-sided calls, as Communicator::open_window. All ranks must call it,
/// and must end their windows together.
std::unique_ptr<Window> open_window(MPI_Comm ranks, std::int64_t rank, std::size_t bytes,
                                    std::size_t numbers);

}  // namespace sluice::distributed::mpi
