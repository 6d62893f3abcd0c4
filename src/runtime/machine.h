#pragma once

#include <cstddef>
#include <string>

/// What the host is.
namespace sluice::runtime {

/// The processor's model as /proc/cpuinfo has it, or "unknown".
std::string cpu_model();

/// Bytes of the host's memory, and those that can be had without swapping; 0 if the system doesn't
/// say.
std::size_t host_memory_bytes();
std::size_t host_free_bytes();

}  // namespace sluice::runtime
