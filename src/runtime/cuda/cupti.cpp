#include "runtime/cuda/cupti.h"

#include <dlfcn.h>

#include "base/check.h"

namespace sluice::runtime::cuda {
namespace {

std::uint32_t version_of(const VendorLibrary& library) {
  std::uint32_t version = 0;
  library.function<std::remove_pointer_t<decltype(&cuptiGetVersion)>>("cuptiGetVersion")(&version);
  return version;
}

/// Since CUDA 13, 130100 is 13.1.
std::string dotted(std::uint32_t version) {
  return fmt::format("{}.{}", version / 10000, version / 100 % 100);
}

const VendorSpec kCupti{"CUPTI", "libcupti.so", CUPTI_API_VERSION / 10000, "nvidia-cuda-cupti",
                        [](const VendorLibrary& library) { return dotted(version_of(library)); }};

VendorLibrary open_library() {
  VendorLibrary library = open_vendor(kCupti);
  // Records only ever grow at their ends, so a newer one will do.
  if (version_of(library) / 100 < CUPTI_API_VERSION / 100) {
    base::fail(ErrorCode::kDevice, "CUPTI {} or newer is needed, but {} is version {}; update it",
               dotted(CUPTI_API_VERSION), library.path(), dotted(version_of(library)));
  }
  // It has threads of its own, so it must never be unloaded.
  dlopen(library.path().c_str(), RTLD_NOW | RTLD_NODELETE);
  return library;
}

}  // namespace

Cupti::Cupti() : library(open_library()) {
  const auto load = [&](auto*& function, const char* name) {
    function = library.function<std::remove_reference_t<decltype(*function)>>(name);
  };
  load(error_message, "cuptiGetErrorMessage");
  load(timestamp, "cuptiGetTimestamp");
  load(subscribe, "cuptiSubscribe");
  load(unsubscribe, "cuptiUnsubscribe");
  load(enable_callback, "cuptiEnableCallback");
  load(graph_node_id, "cuptiGetGraphNodeId");
  load(register_buffers, "cuptiActivityRegisterCallbacks");
  load(enable, "cuptiActivityEnable");
  load(disable, "cuptiActivityDisable");
  load(enable_call, "cuptiActivityEnableRuntimeApi");
  load(flush_all, "cuptiActivityFlushAll");
  load(next_record, "cuptiActivityGetNextRecord");
  load(dropped_records, "cuptiActivityGetNumDroppedRecords");
  load(push_id, "cuptiActivityPushExternalCorrelationId");
  load(pop_id, "cuptiActivityPopExternalCorrelationId");
}

void Cupti::check(CUptiResult result, std::string_view what) const {
  switch (result) {
    case CUPTI_SUCCESS:
      return;
    case CUPTI_ERROR_INSUFFICIENT_PRIVILEGES:
    case CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES:
      base::fail(ErrorCode::kDevice,
                 "could not {}: this machine's driver lets only administrators profile; have its "
                 "option NVreg_RestrictProfilingToAdminUsers set to 0",
                 what);
    case CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED:
      base::fail(ErrorCode::kDevice,
                 "could not {}: another profiler (nsys, ncu) has this process; run without it, or "
                 "let it record the kernels",
                 what);
    default:
      break;
  }
  const char* reason = nullptr;
  error_message(result, &reason);
  base::fail(ErrorCode::kDevice, "could not {}: CUPTI says \"{}\"", what,
             reason == nullptr ? std::to_string(static_cast<int>(result)) : reason);
}

}  // namespace sluice::runtime::cuda
