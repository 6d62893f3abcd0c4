#include "distributed/mpi_part.h"

#include "base/check.h"

namespace sluice::distributed {

std::unique_ptr<Communicator> start_mpi(std::int64_t processes) {
  const runtime::OpenedPart opened = runtime::open_part(
      {.name = "libsluice_mpi",
       .entry = kMpiEntry,
       .needs = "MPI",
       .remedy = "install OpenMPI (libopenmpi-dev) and build it by `./dev build`"});
  if (opened.part == nullptr) {
    base::fail(ErrorCode::kDevice, "the program was started as {} processes, but {}", processes,
               opened.missing);
  }
  std::unique_ptr<Communicator> rank = static_cast<const MpiPart*>(opened.part)->start();
  if (rank->size() != processes) {
    base::fail(ErrorCode::kDevice,
               "the program was started as {} processes, but MPI knows {}: start them by OpenMPI's "
               "mpirun or `srun --mpi=pmix`, or set SLUICE_IGNORE_LAUNCHER=1 for runs of their own",
               processes, rank->size());
  }
  agree(*rank, "build of Sluice", opened.part->build_id);
  return rank;
}

}  // namespace sluice::distributed
