#pragma once

#include <string>

#include "sluice/machine.h"

namespace sluice::app {

/// The lines of `sluice info --machine`.
std::string machine_report(const MachineInfo& info);

}  // namespace sluice::app
