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

/// Returns this process's device. `devices` has one for each process on this machine, in order of
/// their local ranks. If it is "cuda" alone, `gpus` are handed out instead, in turns.
std::string device_here(const std::vector<std::string>& devices,
                        const std::vector<std::string>& gpus);

}  // namespace sluice::distributed
