#pragma once

#include <string_view>

namespace sluice::runtime {

/// Whether CUDA's error of this name ("cudaErrorIllegalAddress") is one after which every call of
/// the process to the GPU fails, so that the process must be restarted. Names rather than numbers:
/// the table needs no CUDA to be compiled and tested, and names an error that only newer versions
/// of CUDA have.
bool loses_device(std::string_view cuda_error);

}  // namespace sluice::runtime
