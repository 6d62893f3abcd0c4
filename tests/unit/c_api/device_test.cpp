#include <gtest/gtest.h>
#include <sluice.h>

#include <cstring>
#include <string>
#include <vector>

#include "unit/support/on_device.h"

namespace sluice::c_api {
namespace {

TEST(CDevice, SaysItsVersion) { EXPECT_STREQ(sluice_version(), "0.1.0"); }

TEST(CDevice, RefusesNamesAndNullsInOneSentence) {
  sluice_error error = SLUICE_INIT(sluice_error);
  sluice_device* device = nullptr;
  EXPECT_EQ(sluice_device_open("gpu", &device, &error), SLUICE_INVALID_ARGUMENT);
  EXPECT_EQ(error.status, SLUICE_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message, "unknown device 'gpu'; use cpu, cuda or cuda:N");
  EXPECT_EQ(device, nullptr);
  EXPECT_EQ(sluice_device_open(nullptr, &device, &error), SLUICE_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message, "name is NULL");
  EXPECT_EQ(sluice_device_open("cpu", nullptr, &error), SLUICE_INVALID_ARGUMENT);
  EXPECT_EQ(sluice_device_open("gpu", &device, nullptr), SLUICE_INVALID_ARGUMENT);
  EXPECT_EQ(sluice_stream_create(nullptr, nullptr, &error), SLUICE_INVALID_ARGUMENT);
  sluice_device_close(nullptr);
  sluice_stream_destroy(nullptr);
  sluice_recurrent_destroy(nullptr);
  sluice_device_free(nullptr, nullptr, 0);
}

TEST(CDevice, CutsMessagesToTheCallersRoom) {
  struct {
    sluice_error error;
    char behind = 'x';
  } place{};
  place.error.size = offsetof(sluice_error, message) + 8;
  sluice_device* device = nullptr;
  std::memset(place.error.message, 'x', sizeof place.error.message);
  EXPECT_EQ(sluice_device_open("gpu", &device, &place.error), SLUICE_INVALID_ARGUMENT);
  EXPECT_EQ(std::string(place.error.message), "unknown");
  EXPECT_EQ(place.error.message[8], 'x');
  // Whoever forgot the size gets the status alone.
  place.error.size = 0;
  place.error.message[0] = 'x';
  EXPECT_EQ(sluice_device_open("gpu", &device, &place.error), SLUICE_INVALID_ARGUMENT);
  EXPECT_EQ(place.error.message[0], 'x');
}

TEST(CDevice, WrapsNoStreamOfTheCpu) {
  sluice_error error = SLUICE_INIT(sluice_error);
  sluice_device* device = nullptr;
  ASSERT_EQ(sluice_device_open("cpu", &device, &error), SLUICE_OK);
  sluice_stream* stream = nullptr;
  EXPECT_EQ(sluice_stream_wrap(device, nullptr, nullptr, &stream, &error), SLUICE_UNSUPPORTED);
  EXPECT_STREQ(error.message, "cpu has no streams of the system's; create one instead");
  sluice_device_close(device);
}

class CDeviceMemory : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Devices, CDeviceMemory, sluice::testing::devices(),
                         sluice::testing::device_name);

TEST_P(CDeviceMemory, GoesThereAndBack) {
  sluice_error error = SLUICE_INIT(sluice_error);
  sluice_device* device = nullptr;
  ASSERT_EQ(sluice_device_open(GetParam(), &device, &error), SLUICE_OK) << error.message;
  sluice_stream* stream = nullptr;
  ASSERT_EQ(sluice_stream_create(device, &stream, &error), SLUICE_OK) << error.message;
  const std::vector<float> values{1, 2, 3};
  std::vector<float> back(3);
  void* memory = nullptr;
  ASSERT_EQ(sluice_device_allocate(device, 12, &memory, &error), SLUICE_OK) << error.message;
  EXPECT_EQ(sluice_stream_upload(stream, memory, values.data(), 12, &error), SLUICE_OK);
  EXPECT_EQ(sluice_stream_download(stream, back.data(), memory, 12, &error), SLUICE_OK);
  EXPECT_EQ(sluice_stream_synchronize(stream, &error), SLUICE_OK);
  EXPECT_EQ(back, values);
  EXPECT_EQ(sluice_stream_upload(stream, nullptr, values.data(), 12, &error),
            SLUICE_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message, "device_memory is NULL");
  sluice_device_free(device, memory, 12);
  sluice_stream_destroy(stream);
  sluice_device_close(device);
}

}  // namespace
}  // namespace sluice::c_api
