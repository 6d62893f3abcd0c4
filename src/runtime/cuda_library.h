#pragma once

#include <memory>

#include "runtime/device.h"

/// The CUDA part is a library of its own beside the core's, loaded when a GPU is asked for, so that
/// a machine without a driver runs everything else.
namespace sluice::runtime {

/// Identifies the build that the core and the CUDA part must share: they exchange C++ objects.
extern const char* const kBuildId;

/// The one entry of libsluice_cuda.so.
inline constexpr const char* kCudaEntry = "sluice_open_cuda";
/// Opens GPU `ordinal` for a core of this build id. The result is the caller's to delete. Throws
/// ErrorCode::kDevice with the reason if it can't be had.
using OpenCuda = Device* (*)(const char* build_id, int ordinal);

/// Loads the CUDA part and opens a GPU. Throws ErrorCode::kDevice with the reason if it can't.
std::unique_ptr<Device> open_cuda_device(int ordinal);

}  // namespace sluice::runtime
