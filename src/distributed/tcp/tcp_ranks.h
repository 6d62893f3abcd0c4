#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "distributed/communicator.h"
#include "distributed/tcp/connection.h"

/// Ranks that are processes and meet over TCP, all of them at rank 0: for what hosts say to each
/// other, and to try out ranks on CPUs. Their sums go by way of rank 0, which is slow for many;
/// GPUs take NCCL (nccl_part.h), large CPU jobs MPI.
///
/// Each rank watches those that it is connected to. One that ends unexpectedly, or is silent for 20
/// seconds, ends the processes of all ranks, with one sentence on standard error; and so does
/// abort().
namespace sluice::distributed::tcp {

/// Rank 0 of `size`: waits at `listener` until all others have come. Throws ErrorCode::kDevice if
/// one does not come in time (120 s, or the environment variable SLUICE_START_TIMEOUT) or is of
/// another build, and what `check`, which is called again
/// and again meanwhile, throws.
std::unique_ptr<Communicator> lead(
    const Socket& listener, std::int64_t size, const std::function<void()>& check = [] {});

/// Another rank, which rank 0 waits for at `port` of `address`. Throws ErrorCode::kDevice if nobody
/// answers there in time.
std::unique_ptr<Communicator> join(const std::string& address, int port, std::int64_t rank,
                                   std::int64_t size);

}  // namespace sluice::distributed::tcp
