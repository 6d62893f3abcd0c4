#include "runtime/device.h"

#include <gtest/gtest.h>

#include "runtime/machine.h"
#include "runtime/test/test_device.h"
#include "unit/support/on_device.h"
#include "unit/support/temporary_folder.h"

namespace sluice::runtime {
namespace {

using testing::error_of;

TEST(Machine, KnowsItsMemory) {
  EXPECT_GT(host_free_bytes(), 0u);
  EXPECT_LT(host_free_bytes(), host_memory_bytes());
  EXPECT_FALSE(cpu_model().empty());
}

class DeviceTest : public testing::OnDevice {};

TEST_P(DeviceTest, IsUsableAfterItsMemoryWasNotEnough) {
  const Error error = error_of([&] { device_->allocate(std::size_t{1} << 56); });
  EXPECT_EQ(error.code(), ErrorCode::kOutOfMemory);
  EXPECT_NE(std::string(error.what()).find("out of memory"), std::string::npos);
  const std::vector<float> values{1, 2, 3};
  EXPECT_EQ(get<float>(put(values)), values);
}

INSTANTIATE_TEST_SUITE_P(Devices, DeviceTest, testing::devices(), testing::device_name);

TEST(TestDevice, HasALimit) {
  test::TestDevice device(std::size_t{1} << 20);
  const std::size_t free = device.free_bytes();
  {
    const Buffer half(device, free / 2);
    EXPECT_EQ(device.free_bytes(), free - free / 2);
    EXPECT_EQ(error_of([&] { device.allocate(free); }).code(), ErrorCode::kOutOfMemory);
  }
  EXPECT_EQ(device.free_bytes(), free);
}

}  // namespace
}  // namespace sluice::runtime
