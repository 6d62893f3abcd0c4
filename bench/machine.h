#pragma once

#include <string>

namespace sluice::bench {

/// The processor's model as /proc/cpuinfo has it, or "unknown".
std::string cpu_model();

}  // namespace sluice::bench
