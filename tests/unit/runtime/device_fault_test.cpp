#include "runtime/device_fault.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "kernels/elementwise/elementwise.h"
#include "unit/support/on_device.h"

namespace sluice::runtime {
namespace {

TEST(DeviceFault, IsWhatCudaDoesNotRecoverFrom) {
  for (const char* fault :
       {"cudaErrorAssert", "cudaErrorContained", "cudaErrorContextIsDestroyed",
        "cudaErrorECCUncorrectable", "cudaErrorExternalDevice", "cudaErrorHardwareStackError",
        "cudaErrorIllegalAddress", "cudaErrorIllegalInstruction", "cudaErrorInvalidAddressSpace",
        "cudaErrorInvalidPc", "cudaErrorLaunchFailure", "cudaErrorLaunchTimeout",
        "cudaErrorMisalignedAddress", "cudaErrorMpsClientTerminated",
        "cudaErrorNvlinkUncorrectable", "cudaErrorTensorMemoryLeak"}) {
    EXPECT_TRUE(loses_device(fault)) << fault;
  }
}

// After these the process goes on: with less memory, another launch or another device.
TEST(DeviceFault, IsNoOtherError) {
  for (const char* other :
       {"cudaSuccess", "cudaErrorMemoryAllocation", "cudaErrorInvalidValue",
        "cudaErrorInvalidConfiguration", "cudaErrorNotReady", "cudaErrorNoDevice",
        "cudaErrorInsufficientDriver", "cudaErrorNoKernelImageForDevice",
        "cudaErrorLaunchOutOfResources", "cudaErrorCooperativeLaunchTooLarge",
        "cudaErrorStreamCaptureUnsupported", "cudaErrorInvalidClusterSize", "cudaErrorUnknown",
        "unrecognized error code", "cudaErrorIllegal", ""}) {
    EXPECT_FALSE(loses_device(other)) << other;
  }
}

/// The GPU, where there is one.
std::vector<const char*> gpus() {
  std::vector<const char*> names;
  for (const char* name : testing::device_names()) {
    if (std::string_view(name) == "cuda") names.push_back(name);
  }
  return names;
}

/// A process of its own, which a fault may cost its GPU.
class LostDevice : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

template <typename Work>
void expect_lost(const char* what, Work&& work) {
  try {
    work();
    std::fprintf(stderr, "%s: no error\n", what);
  } catch (const Error& error) {
    const bool lost = error.code() == ErrorCode::kDeviceLost;
    std::fprintf(stderr, "%s: %s: %s\n", what, lost ? "lost" : "another error", error.what());
    if (lost) return;
  }
  std::_Exit(1);
}

/// Writes to memory that is nobody's, then asks for this and that.
[[noreturn]] void lose(const char* name) {
  const auto device = open_device(name);
  const Context context(*device);
  const Buffer memory(*device, 64);
  const Tensor tensor = memory.tensor(DType::kFloat32, {16});
  constexpr std::uintptr_t kNobodys = 1 << 20;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): an address that no allocation has.
  const Tensor wild(reinterpret_cast<void*>(kNobodys), DType::kFloat32, {16});
  expect_lost("fault", [&] {
    kernels::elementwise::scale(context, wild, 2);
    context.synchronize();
  });
  expect_lost("next call", [&] { context.synchronize(); });
  expect_lost("memory", [&] { Buffer(*device, 64); });
  expect_lost("copy", [&] { context.download<float>(tensor); });
  expect_lost("kernel", [&] {
    kernels::elementwise::scale(context, tensor, 2);
    context.synchronize();
  });
  expect_lost("device opened anew", [&] { Context(*open_device(name)).synchronize(); });
  std::_Exit(0);
}

TEST_P(LostDevice, IsToldByEveryCallThatFollows) {
  EXPECT_EXIT(lose(GetParam()), ::testing::ExitedWithCode(0), "process, which must be restarted");
}

INSTANTIATE_TEST_SUITE_P(Devices, LostDevice, ::testing::ValuesIn(gpus()), testing::device_name);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(LostDevice);

}  // namespace
}  // namespace sluice::runtime
