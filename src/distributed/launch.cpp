#include "distributed/launch.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>

namespace sluice::distributed {
namespace {

/// The number that an environment variable holds; 0 if it is not there or holds none.
std::int64_t number_in(const char* variable) {
  const char* text = std::getenv(variable);
  std::int64_t number = 0;
  if (text != nullptr) std::from_chars(text, text + std::strlen(text), number);
  return number;
}

}  // namespace

std::int64_t processes_of_mpi() {
  std::int64_t processes = std::max(number_in("OMPI_COMM_WORLD_SIZE"), number_in("PMI_SIZE"));
  // Slurm starts processes of any kind; with PMIx they are ranks of MPI.
  if (std::getenv("PMIX_RANK") != nullptr)
    processes = std::max(processes, number_in("SLURM_NTASKS"));
  return std::max<std::int64_t>(processes, 1);
}

}  // namespace sluice::distributed
