#include "runtime/cuda/libraries.h"

#include <cublasLt.h>
#include <cuda_runtime_api.h>
// Built without their headers, this still says which version the rest of Sluice is written for.
#if __has_include(<cudnn.h>)
#include <cudnn.h>
#else
#define CUDNN_MAJOR 9
#endif
#if __has_include(<nccl.h>)
#include <nccl.h>
#else
#define NCCL_MAJOR 2
#endif

#include <fstream>
#include <regex>

#include "base/check.h"

namespace sluice::runtime::cuda {
namespace {

/// 130100 is 13.1.0. Numbers below `wide` are an older version's, with a digit less for the minor
/// version: 12805 is 12.8.5.
std::string dotted(std::size_t version, std::size_t wide) {
  const std::size_t major = version >= wide ? 10000 : 1000;
  return fmt::format("{}.{}.{}", version / major, version % major / 100, version % 100);
}

std::string cublas_version(const VendorLibrary& library) {
  return dotted(library.function<std::size_t()>("cublasLtGetVersion")(), 100000);
}

std::string cudnn_version(const VendorLibrary& library) {
  return dotted(library.function<std::size_t()>("cudnnGetVersion")(), 10000);
}

std::string nccl_version(const VendorLibrary& library) {
  int version = 0;
  library.function<int(int*)>("ncclGetVersion")(&version);
  return dotted(static_cast<std::size_t>(version), 10000);
}

std::string cuda_version(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

/// "580.95.05"; empty without a driver.
std::string driver_version() {
  std::ifstream stream("/proc/driver/nvidia/version");
  std::string line;
  std::getline(stream, line);
  std::smatch found;
  static const std::regex pattern(R"(\b[0-9]+\.[0-9]+(\.[0-9]+)?\b)");
  return std::regex_search(line, found, pattern) ? found.str() : "";
}

LibraryReport report(const VendorSpec& spec, const VendorLibrary& library) {
  return {std::string(spec.name), spec.version(library), library.path(), ""};
}

}  // namespace

const VendorSpec kCublasLt{"cuBLAS", "libcublasLt.so", CUBLAS_VER_MAJOR, "nvidia-cublas",
                           cublas_version};
const VendorSpec kCudnn{"cuDNN", "libcudnn.so", CUDNN_MAJOR, "nvidia-cudnn-cu13", cudnn_version};
const VendorSpec kNccl{"NCCL", "libnccl.so", NCCL_MAJOR, "nvidia-nccl-cu13", nccl_version};

CudaSoftware software(LibrarySearch search) {
  CudaSoftware found;
  int driver = 0, runtime = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  if (driver > 0) {
    found.driver = driver_version();
    found.driver_cuda = cuda_version(driver);
  }
  found.runtime = cuda_version(runtime);
  for (const VendorSpec& spec : {kCublasLt, kCudnn, kNccl}) {
    if (search == LibrarySearch::kOpened) {
      if (const auto opened = opened_library(spec.file_name())) {
        found.libraries.push_back(report(spec, opened));
      }
      continue;
    }
    try {
      found.libraries.push_back(report(spec, open_vendor(spec)));
    } catch (const Error& error) {
      found.libraries.push_back({std::string(spec.name), "", "", error.what()});
    }
  }
  return found;
}

}  // namespace sluice::runtime::cuda
