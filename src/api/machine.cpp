#include "sluice/machine.h"

#include <omp.h>

#include "base/check.h"
#include "kernels/recurrent/recurrent.h"
#include "runtime/cuda_library.h"
#include "runtime/machine.h"

namespace sluice {
namespace {

void describe_host(MachineInfo& info) {
  info.cpu = runtime::cpu_model();
  info.threads = omp_get_max_threads();
  info.memory_bytes = runtime::host_memory_bytes();
  info.free_bytes = runtime::host_free_bytes();
  const auto device = runtime::open_device("cpu");
  const runtime::Context context(*device);
  for (const base::DType dtype : {base::DType::kFloat32, base::DType::kBFloat16}) {
    kernels::recurrent::Descriptor descriptor;
    descriptor.dtype = dtype;
    descriptor.time = descriptor.rows = descriptor.layers = 1;
    descriptor.input = descriptor.hidden = 64;
    const auto choice = kernels::recurrent::make_plan(context, descriptor);
    info.implementations.push_back(
        {std::string(base::name_of(dtype)), std::string(choice.plan->implementation())});
  }
}

void describe_gpus(MachineInfo& info, const runtime::CudaPart& part) {
  runtime::CudaSoftware software = part.software(runtime::LibrarySearch::kAll);
  info.driver = software.driver;
  info.driver_cuda = software.driver_cuda;
  info.cuda_runtime = software.runtime;
  info.kernels_for = software.kernels_for;
  for (const runtime::LibraryReport& library : software.libraries) {
    info.libraries.push_back({library.name, library.version, library.path, library.missing});
  }
  for (const runtime::GpuReport& gpu : part.gpus()) {
    info.gpus.push_back(
        {gpu.device, gpu.model, gpu.capability, gpu.memory_bytes, gpu.free_bytes, gpu.missing});
  }
}

}  // namespace

MachineInfo describe_machine() {
  MachineInfo info;
  describe_host(info);
  try {
    describe_gpus(info, runtime::cuda_part());
    if (info.gpus.empty()) info.gpus_missing = "this machine has no GPU";
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kDevice && error.code() != ErrorCode::kDeviceLost) throw;
    info.gpus_missing = error.what();
  }
  return info;
}

}  // namespace sluice
