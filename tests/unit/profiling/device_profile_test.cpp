#include "kernels/elementwise/elementwise.h"
#include "profiling/breakdown.h"
#include "runtime/span.h"
#include "unit/support/on_device.h"

namespace sluice::profiling {
namespace {

namespace elementwise = kernels::elementwise;

/// Profiles of work on each device; a GPU's tell of its kernels.
class DeviceProfile : public testing::OnDevice {
 protected:
  void SetUp() override {
    if (device_->type() == runtime::DeviceType::kTest) {
      GTEST_SKIP() << "the test device runs work at a time that means nothing";
    }
    profiler_ = std::make_unique<runtime::Profiler>(
        device_->trace(true), 1, 1, [this](const runtime::Profile& done) { profile_ = done; });
    context_.set_profiler(profiler_.get());
  }
  bool is_gpu() const { return !device_->runs_host_kernels(); }
  void fill(const char* module, const testing::Tensor& tensor, double value) {
    const runtime::Span span(context_, module, "forward");
    elementwise::fill(context_, tensor, value);
  }
  /// Kernels that the GPU ran for a module.
  std::int64_t pieces(const std::string& module) const {
    for (const BreakdownRow& row : break_down(profile_).rows) {
      if (row.module == module) return row.pieces;
    }
    return 0;
  }

  std::unique_ptr<runtime::Profiler> profiler_;
  runtime::Profile profile_;
};

TEST_P(DeviceProfile, KnowsWhoQueuedWhat) {
  const testing::Tensor tensor = poisoned(testing::DType::kFloat32, {1 << 20});
  runtime::run_step(context_, "step", 1, [&] {
    for (int i = 0; i < 3; ++i) fill("encoder", tensor, 1);
    fill("decoder", tensor, 2);
  });
  EXPECT_EQ(profile_.device.faults, std::vector<std::string>());
  EXPECT_EQ(pieces("encoder"), is_gpu() ? 3 : 0);
  EXPECT_EQ(pieces("decoder"), is_gpu() ? 1 : 0);
  const Breakdown breakdown = break_down(profile_);
  ASSERT_EQ(breakdown.rows.size(), 2U);
  if (!is_gpu()) return;
  EXPECT_EQ(breakdown.rest.pieces, 0);
  EXPECT_GT(breakdown.rows[0].device_ms, 0);
  // The clocks agree: all of it lies between the step's begin and end.
  for (const runtime::DeviceWork& work : profile_.device.work) {
    EXPECT_GE(work.start, profile_.begin - 20'000);
    EXPECT_LE(work.end, profile_.end + 20'000);
    EXPECT_NE(profile_.device.names.at(work.name).find("fill"), std::string::npos)
        << profile_.device.names.at(work.name);
  }
}

// Whenever a graph runs, its work belongs to those who queued it when it was captured, not to who
// has it run.
TEST_P(DeviceProfile, KnowsWhoseWorkAGraphRuns) {
  if (!context_.stream().can_capture()) GTEST_SKIP() << "this device has no graphs";
  const testing::Tensor tensor = poisoned(testing::DType::kFloat32, {1 << 20});
  const std::unique_ptr<runtime::Graph> graph = context_.stream().capture([&] {
    fill("encoder", tensor, 1);
    for (int i = 0; i < 2; ++i) fill("decoder", tensor, 2);
  });
  runtime::run_step(context_, "step", 1, [&] {
    const runtime::Span span(context_, "replay");
    for (int i = 0; i < 4; ++i) graph->launch(context_.stream());
  });
  EXPECT_EQ(profile_.device.faults, std::vector<std::string>());
  EXPECT_EQ(pieces("encoder"), 4);
  EXPECT_EQ(pieces("decoder"), 8);
  EXPECT_EQ(pieces("replay"), 0);
}

// One for a process: the second of two at a time says so, and has the host's times.
TEST_P(DeviceProfile, SecondAtATimeSaysSo) {
  if (!is_gpu()) GTEST_SKIP() << "this device has no trace";
  const std::unique_ptr<runtime::DeviceTrace> second = device_->trace(true);
  ASSERT_NE(second, nullptr);
  second->start();
  const runtime::DeviceLog log = second->stop();
  ASSERT_EQ(log.faults.size(), 1U);
  EXPECT_NE(log.faults[0].find("already"), std::string::npos) << log.faults[0];
}

INSTANTIATE_TEST_SUITE_P(Devices, DeviceProfile, testing::devices(), testing::device_name);

}  // namespace
}  // namespace sluice::profiling
