#include "training/ranks/devices.h"

#include <gtest/gtest.h>

#include "unit/support/temporary_folder.h"

namespace sluice::training {
namespace {

std::vector<std::string> of(const std::string& devices) {
  TrainConfig config;
  config.device = "test";
  config.devices = devices;
  return devices_of(config);
}

TEST(Devices, AreThoseOfTheListOrTheOneDevice) {
  EXPECT_EQ(of(""), std::vector<std::string>{"test"});
  EXPECT_EQ(of("cuda:1"), std::vector<std::string>{"cuda:1"});
  EXPECT_EQ(of("cuda:2, cuda:0"), (std::vector<std::string>{"cuda:2", "cuda:0"}));
  EXPECT_EQ(of("cpu, cpu,cpu"), (std::vector<std::string>{"cpu", "cpu", "cpu"}));
}

TEST(Devices, RefusesWhatIsNoList) {
  for (const char* list : {",", "cpu,,cpu", "cpu,"}) {
    const Error error = testing::error_of([&] { of(list); });
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << list;
    EXPECT_NE(std::string(error.what()).find(list), std::string::npos) << error.what();
  }
  EXPECT_EQ(testing::error_of([] { of("cpu,test"); }).code(), ErrorCode::kInvalidArgument);
  for (const char* list : {"cuda:0,cpu", "cuda:0,cuda:0", "cuda:0,cuda", "cuda:0,cuda:all"}) {
    EXPECT_EQ(testing::error_of([&] { of(list); }).code(), ErrorCode::kInvalidArgument) << list;
  }
}

}  // namespace
}  // namespace sluice::training
