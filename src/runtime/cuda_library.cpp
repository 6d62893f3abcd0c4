#include "runtime/cuda_library.h"

#include <dlfcn.h>

#include <string>

#include "base/check.h"

namespace sluice::runtime {
namespace {

constexpr std::string_view kFile = "libsluice_cuda.so";

/// The CUDA part lies beside the library that holds this function.
std::string path_of_cuda_part() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&open_cuda_device), &info) == 0) {
    return std::string(kFile);
  }
  const std::string core = info.dli_fname;
  return core.substr(0, core.rfind('/') + 1) + std::string(kFile);
}

OpenCuda load_entry(int ordinal) {
  const auto refuse = [&](std::string_view reason) {
    base::fail(ErrorCode::kDevice, "device cuda:{} can't be had: {}; or use --device cpu", ordinal,
               reason);
  };
  if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL) == nullptr) {
    refuse("this machine has no NVIDIA driver (libcuda.so.1); install it");
  }
  // Never closed: kernels and devices of it may live as long as the program.
  void* library = dlopen(path_of_cuda_part().c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    refuse(fmt::format("its part of Sluice could not be loaded ({}); build it where nvcc is",
                       dlerror()));
  }
  void* entry = dlsym(library, kCudaEntry);
  if (entry == nullptr) {
    refuse(fmt::format("{} has no {}; install it anew", path_of_cuda_part(), kCudaEntry));
  }
  return reinterpret_cast<OpenCuda>(entry);
}

}  // namespace

const char* const kBuildId = SLUICE_BUILD_ID;

std::unique_ptr<Device> open_cuda_device(int ordinal) {
  return std::unique_ptr<Device>(load_entry(ordinal)(kBuildId, ordinal));
}

}  // namespace sluice::runtime
