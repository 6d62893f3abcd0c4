#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/device.h"
#include "runtime/part_library.h"

/// The CUDA part (runtime/part_library.h), opened when a GPU is asked for.
namespace sluice::runtime {

/// A GPU, and why this build can't use it, if so.
struct GpuReport {
  std::string device;      ///< "cuda:0"
  std::string model;       ///< "NVIDIA H200"
  std::string capability;  ///< "9.0"
  std::size_t memory_bytes = 0, free_bytes = 0;
  std::string missing;  ///< a clause; empty if it can be used
};

/// A library of NVIDIA's, or a sentence about what is missing.
struct LibraryReport {
  std::string name;           ///< "cuDNN"
  std::string version, path;  ///< empty if it can't be had
  std::string missing;
};

/// What computes beside the GPU itself.
struct CudaSoftware {
  std::string driver;       ///< "580.95.05"; empty if there is none
  std::string driver_cuda;  ///< the newest CUDA that it runs, "13.0"; likewise
  std::string runtime;      ///< of CUDA in libsluice_cuda.so
  std::string kernels_for;  ///< "8.0, 9.0a, 10.0 and newer"
  std::vector<LibraryReport> libraries;
};

/// Which libraries to describe: those that this process has opened, or all, opened for the purpose.
enum class LibrarySearch { kOpened, kAll };

/// What libsluice_cuda.so offers.
struct CudaPart : Part {
  /// Opens a GPU; the result is the caller's to delete. Throws ErrorCode::kDevice with the reason
  /// if it can't be had.
  Device* (*open)(int ordinal);
  /// All GPUs. Throws ErrorCode::kDevice if the driver gives none.
  std::vector<GpuReport> (*gpus)();
  CudaSoftware (*software)(LibrarySearch search);
};
/// The one entry of libsluice_cuda.so.
inline constexpr const char* kCudaEntry = "sluice_cuda_part";

/// Loads the CUDA part, which needs no driver. Throws ErrorCode::kDevice with a clause if it is not
/// there or of another build.
const CudaPart& cuda_part();

/// Loads the CUDA part and opens a GPU. Throws ErrorCode::kDevice with the reason if it can't.
std::unique_ptr<Device> open_cuda_device(int ordinal);

}  // namespace sluice::runtime
