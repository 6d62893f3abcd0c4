#include "runtime/test/test_device.h"

#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <stdexcept>
#include <thread>

#include "runtime/context.h"

namespace sluice::runtime::test {
namespace {

// What makes the other tests on this device mean something: a host that reads between kernels dies.
TEST(TestDeviceDeathTest, HostCannotReadItsMemory) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        TestDevice device;
        const Context context(device);
        const Buffer buffer(device, sizeof(float));
        const Tensor tensor = buffer.tensor(DType::kFloat32, {1});
        context.zero(tensor);
        context.synchronize();
        std::signal(SIGSEGV, SIG_DFL);  // a sanitizer would report and exit
        const volatile float* value = static_cast<const float*>(tensor.data());
        std::exit(*value == 0 ? 0 : 1);
      },
      testing::KilledBySignal(SIGSEGV), "");
}

TEST(TestDevice, FreshMemoryIsNaN) {
  TestDevice device;
  const Context context(device);
  const Buffer buffer(device, 8 * sizeof(float));
  for (const float value : context.download<float>(buffer.tensor(DType::kFloat32, {8}))) {
    EXPECT_TRUE(std::isnan(value));
  }
}

TEST(TestDevice, RunsInOrderOnAnotherThread) {
  TestDevice device;
  Stream& stream = device.default_stream();
  std::vector<int> order;
  std::thread::id worker;
  stream.launch([&] { worker = std::this_thread::get_id(); });
  for (int i = 0; i < 20; ++i) stream.launch([&order, i] { order.push_back(i); });
  stream.synchronize();
  EXPECT_NE(worker, std::this_thread::get_id());
  ASSERT_EQ(order.size(), 20u);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
}

TEST(TestDevice, ErrorsComeOutOnceAtSynchronize) {
  TestDevice device;
  Stream& stream = device.default_stream();
  stream.launch([] { throw std::runtime_error("in a kernel"); });
  EXPECT_THROW(stream.synchronize(), std::runtime_error);
  EXPECT_NO_THROW(stream.synchronize());
}

TEST(TestDevice, CapturedWorkRunsWhenItIsLaunched) {
  TestDevice device;
  Stream& stream = device.default_stream();
  int runs = 0;
  const auto graph = stream.capture([&] {
    stream.launch([&] { ++runs; });
    stream.launch([&] { runs *= 10; });
  });
  stream.synchronize();
  EXPECT_EQ(runs, 0);
  graph->launch(stream);
  graph->launch(stream);
  stream.synchronize();
  EXPECT_EQ(runs, 110);
}

TEST(TestDevice, CapturesNoMoreThanAGpu) {
  TestDevice device;
  const Context context(device);
  Buffer buffer(device, sizeof(float));
  const Tensor tensor = buffer.tensor(DType::kFloat32, {1});
  const std::vector<float> values{1};
  const auto fault = [&](const std::function<void()>& work) {
    try {
      context.stream().capture(work);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
      return std::string(error.what());
    }
    return std::string("none");
  };
  EXPECT_EQ(fault([&] { context.zero(tensor); }), "none");
  EXPECT_EQ(fault([&] { context.synchronize(); }), "work that waits can't be captured");
  EXPECT_EQ(fault([&] { context.upload<float>(tensor, values); }),
            "work that copies from the host can't be captured");
  EXPECT_EQ(fault([&] { context.download<float>(tensor); }),
            "work that copies from or to the host can't be captured");
  EXPECT_EQ(fault([&] { const Buffer more(device, 8); }),
            "work that takes memory can't be captured");
  EXPECT_EQ(fault([&] { buffer = Buffer(); }), "work that frees memory can't be captured");
}

}  // namespace
}  // namespace sluice::runtime::test
