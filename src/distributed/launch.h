#pragma once

#include <cstdint>

namespace sluice::distributed {

/// The number of processes that mpirun or srun started this program as, from their environment
/// variables. 1 without either, and if SLUICE_IGNORE_LAUNCHER is set.
std::int64_t launched_processes();

}  // namespace sluice::distributed
