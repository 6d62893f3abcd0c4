#include "runtime/cuda/device_trace.h"

#include <fmt/format.h>
#include <nvtx3/nvToolsExt.h>

#include <exception>

namespace sluice::runtime::cuda {

std::unique_ptr<DeviceTrace> open_trace(bool records) {
  if (!records) return NvtxTrace::is_heard() ? std::make_unique<NvtxTrace>() : nullptr;
  try {
    return open_cupti_trace();
  } catch (const std::exception& error) {
    return std::make_unique<NvtxTrace>(
        fmt::format("what the GPU did is not recorded: {}", error.what()));
  }
}

bool NvtxTrace::is_heard() {
  // Without a tool the call answers with a negative number.
  const int level = nvtxRangePushA("sluice");
  nvtxRangePop();
  return level >= 0;
}

void NvtxTrace::enter(std::uint32_t, const char* name) noexcept { nvtxRangePushA(name); }

void NvtxTrace::leave() noexcept { nvtxRangePop(); }

DeviceLog NvtxTrace::stop() {
  DeviceLog log;
  if (!fault_.empty()) log.faults.push_back(fault_);
  return log;
}

}  // namespace sluice::runtime::cuda
