#pragma once

#include <cstdint>
#include <string>

namespace sluice::distributed {

/// How this process was started beside others, as its environment variables say.
struct Launch {
  std::int64_t processes = 1;
  std::int64_t rank = 0;
  std::int64_t local_rank = 0;  ///< among those on this machine
  std::string address;          ///< of rank 0; empty where MPI knows it
  int port = 0;                 ///< where rank 0 listens; only with an address

  bool is_alone() const { return processes == 1; }
};

/// Reads what torchrun (RANK, WORLD_SIZE, LOCAL_RANK), OpenMPI's mpirun (OMPI_COMM_WORLD_*) and
/// Slurm's srun (SLURM_*) set, with MASTER_ADDR and MASTER_PORT where ranks meet over TCP; without
/// MASTER_ADDR, they meet by MPI. One process without any of them, and if SLUICE_IGNORE_LAUNCHER is
/// set. Throws ErrorCode::kInvalidArgument for numbers that can't be.
Launch launch_of_process();

}  // namespace sluice::distributed
