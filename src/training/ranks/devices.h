#pragma once

#include <string>
#include <vector>

#include "distributed/communicator.h"
#include "training/train_config.h"

namespace sluice::training {

/// The device of each rank: machine.devices, where "cuda:all" is all GPUs of this machine, or
/// machine.device alone. Throws ErrorCode::kInvalidArgument for an empty name, for devices of
/// different kinds and, unless ranks are asynchronous, for a GPU that is named twice.
std::vector<std::string> devices_of(const TrainConfig& config);

/// The devices of the ranks in this process. `process`: its rank, which has one of them; null if it
/// is the only process.
std::vector<std::string> devices_here(const TrainConfig& config,
                                      const distributed::Communicator* process);

/// The names of all GPUs of this machine that this build can use. Throws ErrorCode::kDevice with
/// the reason if there is none.
std::vector<std::string> all_gpus();

}  // namespace sluice::training
