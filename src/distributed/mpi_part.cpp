#include "distributed/mpi_part.h"

#include "base/check.h"

namespace sluice::distributed {

std::unique_ptr<Communicator> start_mpi() {
  const runtime::OpenedPart opened = runtime::open_part(
      {.name = "libsluice_mpi",
       .entry = kMpiEntry,
       .needs = "MPI",
       .remedy = "install OpenMPI (libopenmpi-dev) and build it by `./dev build`"});
  if (opened.part == nullptr) {
    base::fail(ErrorCode::kDevice, "the program was started by MPI, but {}", opened.missing);
  }
  return static_cast<const MpiPart*>(opened.part)->start();
}

}  // namespace sluice::distributed
