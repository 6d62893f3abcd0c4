#pragma once

#include <memory>

#include "distributed/communicator.h"
#include "runtime/part_library.h"

/// MPI is a part of its own (runtime/part_library.h), which is opened where a run was started by
/// mpirun or srun: everything else runs without MPI.
namespace sluice::distributed {

/// The function of libsluice_mpi.so.
struct MpiPart : runtime::Part {
  /// Starts MPI and returns this process's rank, on a device that runs host functions. MPI ends
  /// with the rank, and can't be started again. Its abort() prints the error's sentence and ends
  /// the processes of all ranks, this one too.
  std::unique_ptr<Communicator> (*start)();
};
/// The one entry of libsluice_mpi.so.
inline constexpr const char* kMpiEntry = "sluice_mpi_part";

/// Starts MPI as one of `processes`; called once in a process. Throws ErrorCode::kDevice with the
/// reason if there is no such part, no MPI, or one that does not know the others.
std::unique_ptr<Communicator> start_mpi(std::int64_t processes);

}  // namespace sluice::distributed
