#include "runtime/cuda_library.h"

#include <dlfcn.h>

#include <string_view>

#include "base/check.h"
#include "runtime/build_id.h"

namespace sluice::runtime {
namespace {

constexpr std::string_view kFile = "libsluice_cuda.so." SLUICE_MAJOR;

/// The CUDA part lies beside the library that holds this function.
std::string path_of_cuda_part() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&open_cuda_device), &info) == 0) {
    return std::string(kFile);
  }
  const std::string own = info.dli_fname;
  return own.substr(0, own.rfind('/') + 1) + std::string(kFile);
}

template <typename... Arguments>
[[noreturn]] void refuse(fmt::format_string<Arguments...> reason, Arguments&&... arguments) {
  base::fail(ErrorCode::kDevice, reason, std::forward<Arguments>(arguments)...);
}

}  // namespace

const CudaPart& cuda_part() {
  const std::string path = path_of_cuda_part();
  // Never closed: kernels and devices of it may live as long as the program.
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    refuse(
        "Sluice's part for it could not be loaded ({}); build it where nvcc is, by `./dev build`",
        dlerror());
  }
  const auto entry = reinterpret_cast<CudaEntry>(dlsym(library, kCudaEntry));
  const char* build = entry == nullptr ? "an older one" : entry()->build_id;
  if (std::string_view(build) != build_id()) {
    refuse(
        "{} is of another build ({}) than libsluice.so ({}); build both with `./dev build`, "
        "or take both from one bundle",
        path, build, build_id());
  }
  return *entry();
}

std::unique_ptr<Device> open_cuda_device(int ordinal) {
  try {
    if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL) == nullptr) {
      refuse("this machine has no NVIDIA driver (libcuda.so.1); install it");
    }
    return std::unique_ptr<Device>(cuda_part().open(ordinal));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kDevice) throw;
    base::fail(ErrorCode::kDevice,
               "device cuda:{} is not available: {}; or use --device cpu (sluice train: --set "
               "machine.device=cpu)",
               ordinal, error.what());
  }
}

}  // namespace sluice::runtime
