#include <cuda_runtime_api.h>

#include <string>
#include <string_view>

#include "base/check.h"
#include "kernels/attention_decoder/cuda/attention_decoder.h"
#include "kernels/beam_search/cuda/beam_search.h"
#include "kernels/device_kernels.h"
#include "kernels/elementwise/cuda/elementwise.h"
#include "kernels/embedding/cuda/embedding.h"
#include "kernels/loss/cuda/loss.h"
#include "kernels/matmul/cuda/matmul.h"
#include "kernels/optimizer/cuda/optimizer.h"
#include "kernels/recurrent/cuda/recurrent.h"
#include "runtime/cuda/cuda_device.h"
#include "runtime/cuda_library.h"

namespace sluice::kernels::cuda {
namespace {

constexpr DeviceKernels kKernels{
    .attention_decoder = &attention_decoder::cuda::kCandidates,
    .beam_search = &beam_search::cuda::kLeaves,
    .elementwise = &elementwise::cuda::kLeaves,
    .embedding = &embedding::cuda::kLeaves,
    .loss = &loss::cuda::kLeaves,
    .matmul = &matmul::cuda::kLeaves,
    .optimizer = &optimizer::cuda::kLeaves,
    .recurrent = &recurrent::cuda::kCandidates,
};

/// Why the GPU can't be had; empty if it can.
std::string refuse(std::string_view build_id, int ordinal) {
  // Its own, and not runtime::kBuildId, which is the core's.
  constexpr std::string_view kOwn = SLUICE_BUILD_ID;
  if (build_id != kOwn) {
    return fmt::format(
        "libsluice_cuda.so is of another build ({}) than libsluice_core.so ({}); install both from "
        "one build",
        kOwn, build_id);
  }
  int driver = 0, runtime = 0, count = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  if (driver / 1000 < runtime / 1000) {
    return fmt::format("the driver supports CUDA {}.{} but {}.{} is needed; update it",
                       driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
  }
  const cudaError_t result = cudaGetDeviceCount(&count);
  if (result != cudaSuccess) {
    return fmt::format("the driver says \"{}\"", cudaGetErrorString(result));
  }
  if (ordinal >= count) return fmt::format("this machine has {} GPUs, counted from 0", count);
  int major = 0, minor = 0;
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, ordinal);
  cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, ordinal);
  constexpr std::string_view kBuiltFor = SLUICE_CUDA_ARCHITECTURES;
  if (kBuiltFor.find(fmt::format("{}{}", major, minor)) == std::string_view::npos) {
    return fmt::format(
        "it has compute capability {}.{}, and this build holds kernels for {} only; configure with "
        "-DCMAKE_CUDA_ARCHITECTURES={}{}",
        major, minor, kBuiltFor, major, minor);
  }
  return {};
}

runtime::Device* open(std::string_view build_id, int ordinal) {
  if (const std::string reason = refuse(build_id, ordinal); !reason.empty()) {
    base::fail(ErrorCode::kDevice, "device cuda:{} can't be had: {}; or use --device cpu", ordinal,
               reason);
  }
  return new runtime::cuda::CudaDevice(ordinal, kKernels);
}

}  // namespace
}  // namespace sluice::kernels::cuda

extern "C" [[gnu::visibility("default")]] sluice::runtime::Device* sluice_open_cuda(
    const char* build_id, int ordinal) {
  return sluice::kernels::cuda::open(build_id, ordinal);
}
