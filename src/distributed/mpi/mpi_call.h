#pragma once

#include <mpi.h>

#include <cstddef>

#include "base/check.h"

namespace sluice::distributed::mpi {

/// MPI counts in int.
inline constexpr std::size_t kMostBytes = std::size_t{1} << 30;

/// Throws ErrorCode::kDevice unless a call of MPI that was to `what` succeeded.
inline void check(int status, const char* what) {
  if (status == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(status, text, &length);
  base::fail(ErrorCode::kDevice, "MPI could not {}: {}", what, text);
}

}  // namespace sluice::distributed::mpi
