#pragma once

#include <cstdint>

namespace sluice::distributed {

/// How many processes mpirun, or srun with PMI, started this program as; 1 without either. Told by
/// their environment variables.
std::int64_t processes_of_mpi();

}  // namespace sluice::distributed
