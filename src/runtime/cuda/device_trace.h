#pragma once

#include <memory>
#include <string>
#include <utility>

#include "runtime/device_trace.h"

namespace sluice::runtime::cuda {

/// What Device::trace gives of a GPU. `records` asks for kernels, copies and clears as CUPTI
/// records them; without CUPTI the log says in a sentence what is missing. CUPTI is one for a
/// process, and so is what records with it: of two at a time the second says so in its log. NVTX
/// ranges are given to whatever tool watches from outside; null if nothing was asked for and none
/// does. To be used by the thread that calls this.
std::unique_ptr<DeviceTrace> open_trace(bool records);

/// With CUPTI; throws ErrorCode::kDevice with one sentence.
std::unique_ptr<DeviceTrace> open_cupti_trace();

/// NVTX ranges alone. Its log has `fault`, unless that is empty.
class NvtxTrace : public DeviceTrace {
 public:
  explicit NvtxTrace(std::string fault = "") : fault_(std::move(fault)) {}

  /// Whether a tool watches.
  static bool is_heard();

  void enter(std::uint32_t label, const char* name) noexcept override;
  void leave() noexcept override;
  void start() noexcept override {}
  std::size_t size() const noexcept override { return 0; }
  DeviceLog stop() override;

 private:
  std::string fault_;
};

}  // namespace sluice::runtime::cuda
