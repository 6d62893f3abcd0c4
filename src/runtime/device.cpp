#include "runtime/device.h"

#include "base/check.h"
#include "runtime/cpu/cpu_device.h"
#include "runtime/test/test_device.h"

namespace sluice::runtime {

std::unique_ptr<Device> open_device(std::string_view name) {
  if (name == "cpu") return std::make_unique<cpu::CpuDevice>();
  if (name == "test") return std::make_unique<test::TestDevice>();
  if (name.starts_with("cuda")) {
    base::fail(ErrorCode::kDevice,
               "device '{}' can't be had: this build has no CUDA part; use --device cpu", name);
  }
  base::fail(ErrorCode::kInvalidArgument, "unknown device '{}'; use cpu", name);
}

}  // namespace sluice::runtime
