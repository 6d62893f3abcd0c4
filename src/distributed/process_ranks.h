#pragma once

#include <string>
#include <vector>

#include "distributed/communicator.h"

/// The rank that this process is, as a whole.
namespace sluice::distributed {

/// This process's rank among those that a launcher started (launch.h); null if it is the only one.
/// Connects to them when it is called for the first time; that ends with the process. Throws
/// ErrorCode::kDevice with the reason if it can't.
Communicator* rank_of_process();

/// Makes this process, which nobody started beside others, rank 0 of as many as there are `gpus`,
/// more than one: starts `command`, an argument list, for each of the others, with the environment
/// variables that launch_of_process() reads, by the program that runs here. They are killed when
/// the calling thread ends. Throws ErrorCode::kUnsupported without a command and ErrorCode::kIo if
/// one can't be started.
Communicator* start_others(const std::vector<std::string>& gpus,
                           const std::vector<std::string>& command);

/// Of `devices`, one for each process on this machine, the one that is this process's. "cuda" alone
/// is any: then it is the one at this process's place among `gpus`, of which there may be fewer.
std::string device_here(const std::vector<std::string>& devices,
                        const std::vector<std::string>& gpus);

}  // namespace sluice::distributed
