#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "base/check.h"
#include "kernels/attention_decoder/cuda/attention_decoder.h"
#include "kernels/beam_search/cuda/beam_search.h"
#include "kernels/crf/cuda/crf.h"
#include "kernels/device_kernels.h"
#include "kernels/elementwise/cuda/elementwise.h"
#include "kernels/embedding/cuda/embedding.h"
#include "kernels/loss/cuda/loss.h"
#include "kernels/matmul/cuda/matmul.h"
#include "kernels/optimizer/cuda/optimizer.h"
#include "kernels/pooling/cuda/pooling.h"
#include "kernels/recurrent/cuda/cudnn_places.h"
#include "kernels/recurrent/cuda/recurrent.h"
#include "kernels/sampling/cuda/sampling.h"
#include "kernels/token_mask/cuda/token_mask.h"
#include "runtime/build_id.h"
#include "runtime/cuda/check.h"
#include "runtime/cuda/cuda_device.h"
#include "runtime/cuda/libraries.h"
#include "runtime/cuda_library.h"

namespace sluice::kernels::cuda {
namespace {

constexpr DeviceKernels kKernels{
    .attention_decoder = &attention_decoder::cuda::kCandidates,
    .beam_search = &beam_search::cuda::kLeaves,
    .crf = &crf::cuda::kLeaves,
    .elementwise = &elementwise::cuda::kLeaves,
    .embedding = &embedding::cuda::kLeaves,
    .loss = &loss::cuda::kLeaves,
    .matmul = &matmul::cuda::kLeaves,
    .optimizer = &optimizer::cuda::kLeaves,
    .pooling = &pooling::cuda::kLeaves,
    .recurrent = &recurrent::cuda::kCandidates,
    .cudnn_places = &recurrent::cuda::kCudnnPlaces,
    .sampling = &sampling::cuda::kLeaves,
    .token_mask = &token_mask::cuda::kLeaves,
};

/// "9.0" of 90.
std::string version_of(int capability) {
  return fmt::format("{}.{}", capability / 10, capability % 10);
}

/// "8.0, 9.0a and PTX 8.0" of "80-real,90a-real,80-virtual", as CMake writes it.
std::string kernels_for() {
  std::vector<std::string> list;
  std::istringstream architectures(SLUICE_CUDA_ARCHITECTURES);
  for (std::string name; std::getline(architectures, name, ',');) {
    const std::size_t digits = name.find_first_not_of("0123456789");
    const std::size_t end = std::min(name.find('-'), name.size());
    const std::string number = name.substr(0, std::min(digits, end));
    list.push_back(fmt::format("{}{}.{}{}", name.ends_with("-virtual") ? "PTX " : "",
                               number.substr(0, number.size() - 1), number.back(),
                               name.substr(number.size(), end - number.size())));
  }
  return fmt::format("{}", fmt::join(list, ", "));
}

/// Why there is no GPU at all; empty if there is.
std::string refuse_driver(int& count) {
  int driver = 0, runtime = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  if (driver == 0) return "this machine has no NVIDIA driver; install it";
  if (driver / 1000 < runtime / 1000) {
    return fmt::format("the driver supports CUDA {}.{} but {}.{} is needed; update it",
                       driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
  }
  const cudaError_t result = cudaGetDeviceCount(&count);
  if (result == cudaSuccess) return {};
  cudaGetLastError();
  runtime::cuda::check_not_lost(result, "count the GPUs");
  return fmt::format("the driver says \"{}\"", cudaGetErrorString(result));
}

/// Why a GPU can't run this build's kernels; empty if it can.
std::string refuse_gpu(const runtime::cuda::CudaDevice& device) {
  const char* reason = device.gpu().code.missing;
  if (reason == nullptr) return {};
  return fmt::format(
      "{} has compute capability {}, and this build holds kernels for {} (CUDA says \"{}\"); "
      "configure with -DSLUICE_ALL_ARCHS=ON, or take a bundle made with --all-archs",
      device.model(), version_of(device.capability()), kernels_for(), reason);
}

runtime::Device* open(int ordinal) {
  int count = 0;
  std::string reason = refuse_driver(count);
  if (reason.empty() && ordinal >= count) {
    reason = fmt::format("this machine has {} GPU(s), counted from 0", count);
  }
  if (!reason.empty()) base::fail(ErrorCode::kDevice, "{}", reason);
  auto device = std::make_unique<runtime::cuda::CudaDevice>(ordinal, kKernels);
  reason = refuse_gpu(*device);
  if (!reason.empty()) base::fail(ErrorCode::kDevice, "{}", reason);
  return device.release();
}

runtime::GpuReport report(int ordinal) {
  const auto gpu = runtime::cuda::properties_of(ordinal);
  runtime::GpuReport report;
  report.device = fmt::format("cuda:{}", ordinal);
  report.model = gpu.model;
  report.capability = version_of(gpu.capability);
  report.memory_bytes = gpu.memory_bytes;
  try {
    const std::unique_ptr<runtime::Device> device(open(ordinal));
    report.free_bytes = device->free_bytes();
  } catch (const Error& error) {
    report.missing = error.what();
  }
  return report;
}

std::vector<runtime::GpuReport> gpus() {
  int count = 0;
  if (const std::string reason = refuse_driver(count); !reason.empty()) {
    base::fail(ErrorCode::kDevice, "{}", reason);
  }
  std::vector<runtime::GpuReport> reports;
  for (int ordinal = 0; ordinal < count; ++ordinal) reports.push_back(report(ordinal));
  return reports;
}

runtime::CudaSoftware software(runtime::LibrarySearch search) {
  runtime::CudaSoftware found = runtime::cuda::software(search);
  found.kernels_for = kernels_for();
  return found;
}

}  // namespace
}  // namespace sluice::kernels::cuda

extern "C" [[gnu::visibility("default")]] const sluice::runtime::Part* sluice_cuda_part() {
  namespace cuda = sluice::kernels::cuda;
  static const sluice::runtime::CudaPart part{
      {sluice::runtime::build_id()}, cuda::open, cuda::gpus, cuda::software};
  return &part;
}
