#pragma once

#include <string>
#include <vector>

#include "training/train_config.h"

namespace sluice::training {

/// The device of each rank: machine.devices, or machine.device alone. Throws
/// ErrorCode::kInvalidArgument for an empty name and for devices of different kinds, and
/// ErrorCode::kUnsupported for several that are not of the host.
std::vector<std::string> devices_of(const TrainConfig& config);

}  // namespace sluice::training
