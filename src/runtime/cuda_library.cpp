#include "runtime/cuda_library.h"

#include <dlfcn.h>

#include "base/check.h"

namespace sluice::runtime {
namespace {

template <typename... Arguments>
[[noreturn]] void refuse(fmt::format_string<Arguments...> reason, Arguments&&... arguments) {
  base::fail(ErrorCode::kDevice, reason, std::forward<Arguments>(arguments)...);
}

}  // namespace

const CudaPart& cuda_part() {
  const OpenedPart opened = open_part({.name = "libsluice_cuda",
                                       .entry = kCudaEntry,
                                       .needs = "it",
                                       .remedy = "build it where nvcc is, by `./dev build`"});
  if (opened.part == nullptr) refuse("{}", opened.missing);
  return static_cast<const CudaPart&>(*opened.part);
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
               "device cuda:{} is not available: {}; or use the device cpu (--device cpu, "
               "machine.device=cpu or device=\"cpu\")",
               ordinal, error.what());
  }
}

}  // namespace sluice::runtime
