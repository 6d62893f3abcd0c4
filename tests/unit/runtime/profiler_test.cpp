#include "runtime/profiler.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "runtime/span.h"
#include "unit/support/on_device.h"

namespace sluice::runtime {
namespace {

/// A device's trace that remembers what it was told.
class FakeTrace final : public DeviceTrace {
 public:
  struct Calls {
    std::vector<std::string> entered;
    int depth = 0, starts = 0, stops = 0;
    bool gone = false, stop_fails = false;
    std::size_t size = 0;
    DeviceLog log;
  };
  explicit FakeTrace(Calls& calls) : calls_(calls) {}
  ~FakeTrace() override { calls_.gone = true; }

  void enter(std::uint32_t, const char* name) noexcept override {
    calls_.entered.emplace_back(name);
    ++calls_.depth;
  }
  void leave() noexcept override { --calls_.depth; }
  void start() noexcept override { ++calls_.starts; }
  std::size_t size() const noexcept override { return calls_.size; }
  DeviceLog stop() override {
    ++calls_.stops;
    if (calls_.stop_fails) throw std::runtime_error("it can't stop");
    return calls_.log;
  }

 private:
  Calls& calls_;
};

class ProfilerTest : public ::testing::Test {
 protected:
  void profile(std::int64_t first, std::int64_t last, std::unique_ptr<DeviceTrace> trace = nullptr,
               std::size_t most = Profiler::kMostEvents) {
    const auto sink = [this](const Profile& profile) { profiles_.push_back(profile); };
    profiler_ = std::make_unique<Profiler>(std::move(trace), first, last, sink, most);
    context_.set_profiler(profiler_.get());
  }
  void step(std::int64_t number) {
    run_step(context_, "step", number, [this] {
      const Span outer(context_, "encoder", "forward");
      const LayerSpan layer(context_.profiler(), 1);
    });
  }
  std::vector<std::string> names(const Profile& profile) const {
    std::vector<std::string> names;
    for (const HostSpan& span : profile.spans) {
      const std::string text = profile.labels.at(span.label).text();
      names.push_back(span.step == 0 ? text : text + " " + std::to_string(span.step));
    }
    return names;
  }

  std::unique_ptr<Device> device_ = open_device("cpu");
  Context context_{*device_};
  std::unique_ptr<Profiler> profiler_;
  std::vector<Profile> profiles_;
};

TEST_F(ProfilerTest, RecordsItsStepsAlone) {
  profile(3, 4);
  for (std::int64_t number = 1; number <= 4; ++number) {
    EXPECT_TRUE(profiles_.empty());
    step(number);
  }
  ASSERT_EQ(profiles_.size(), 1U);  // as soon as the last is done
  step(5);
  ASSERT_EQ(profiles_.size(), 1U);
  const Profile& profile = profiles_[0];
  EXPECT_EQ(names(profile),
            (std::vector<std::string>{"encoder.l1 forward", "encoder forward", "step 3",
                                      "encoder.l1 forward", "encoder forward", "step 4"}));
  EXPECT_EQ(profile.first_step, 3);
  EXPECT_EQ(profile.last_step, 4);
  EXPECT_EQ(profile.steps, 2);
  EXPECT_FALSE(profile.full);
  EXPECT_FALSE(profile.has_device);
}

TEST_F(ProfilerTest, SpansNestAndTellWhatLiesWithin) {
  profile(1, 1);
  step(1);
  const std::vector<HostSpan>& spans = profiles_.at(0).spans;
  ASSERT_EQ(spans.size(), 3U);
  for (std::size_t i = 1; i < spans.size(); ++i) {
    EXPECT_LE(spans[i].start, spans[i - 1].start);
    EXPECT_GE(spans[i].end, spans[i - 1].end);
    EXPECT_EQ(spans[i].inner, spans[i - 1].end - spans[i - 1].start);
  }
  EXPECT_GE(spans[2].start, profiles_[0].begin);
  EXPECT_LE(spans[2].end, profiles_[0].end);
}

TEST_F(ProfilerTest, EndsAfterTheStepThatFillsIt) {
  profile(1, 100, nullptr, 7);
  for (std::int64_t number = 1; number <= 100 && profiles_.empty(); ++number) step(number);
  ASSERT_EQ(profiles_.size(), 1U);
  const Profile& profile = profiles_[0];
  EXPECT_TRUE(profile.full);
  EXPECT_EQ(profile.last_step, 3);
  EXPECT_EQ(profile.spans.size(), 9U);
  EXPECT_EQ(names(profile).back(), "step 3");
  step(4);
  step(5);
  EXPECT_EQ(profiles_.size(), 1U);
  for (std::int64_t number = 1; number <= 3; ++number) step(number);
  EXPECT_EQ(profiles_.size(), 2U);  // of another turn
}

TEST_F(ProfilerTest, CutsAStepThatHoldsTooMuch) {
  profile(1, 1, nullptr, 5);
  run_step(context_, "step", 1, [&] {
    const Span outer(context_, "decoder", "step");
    for (int i = 0; i < 100; ++i) const Span inner(context_, "output", "forward");
  });
  ASSERT_EQ(profiles_.size(), 1U);
  const Profile& profile = profiles_[0];
  EXPECT_TRUE(profile.full);
  EXPECT_EQ(names(profile), (std::vector<std::string>{"output forward", "output forward",
                                                      "output forward", "output forward",
                                                      "output forward", "decoder step", "step 1"}));
  EXPECT_EQ(profile.spans.back().end, profile.end);  // those that were open then, cut short
  std::int64_t own = 0;
  for (const HostSpan& span : profile.spans) own += span.end - span.start - span.inner;
  EXPECT_EQ(own, profile.spans.back().end - profile.spans.back().start);
}

TEST_F(ProfilerTest, ForgetsAStepThatFails) {
  profile(1, 2);
  step(1);
  EXPECT_THROW(run_step(context_, "step", 2,
                        [this] {
                          const Span span(context_, "encoder");
                          throw std::runtime_error("it failed");
                        }),
               std::runtime_error);
  profiler_->end_run(context_);
  EXPECT_TRUE(profiles_.empty());
  step(2);
  ASSERT_EQ(profiles_.size(), 1U);
  EXPECT_EQ(profiles_[0].steps, 1);
}

// Else what it still records would come before the next start.
TEST_F(ProfilerTest, StopsTheDevicesTraceWhenAStepFails) {
  FakeTrace::Calls calls;
  profile(2, 3, std::make_unique<FakeTrace>(calls));
  const auto fail = [&](std::int64_t number) {
    EXPECT_THROW(run_step(context_, "step", number, [] { throw std::logic_error("it failed"); }),
                 std::logic_error);
  };
  fail(1);  // not recorded
  EXPECT_EQ(calls.stops, 0);
  fail(2);
  EXPECT_EQ(calls.starts, 1);
  EXPECT_EQ(calls.stops, 1);
  calls.stop_fails = true;  // which is not what the caller is to hear of
  fail(3);
  EXPECT_EQ(calls.starts, 2);
  EXPECT_EQ(calls.stops, 2);
  calls.stop_fails = false;
  step(2);
  step(3);
  EXPECT_EQ(calls.starts, 3);
  EXPECT_EQ(calls.stops, 3);
  EXPECT_EQ(calls.depth, 0);
  ASSERT_EQ(profiles_.size(), 1U);
  EXPECT_EQ(profiles_[0].steps, 2);
}

TEST_F(ProfilerTest, WatchesNoMoreOnceClosed) {
  FakeTrace::Calls calls;
  profiler_ = std::make_unique<Profiler>(std::make_unique<FakeTrace>(calls), 1, 1,
                                         [this](const Profile& profile) {
                                           profiles_.push_back(profile);
                                           profiler_->close();
                                         });
  context_.set_profiler(profiler_.get());
  {
    const Span around(context_, "epoch");
    step(1);
    EXPECT_TRUE(calls.gone);
    EXPECT_EQ(calls.depth, 0);  // "epoch", too
    const std::size_t entered = calls.entered.size();
    step(2);
    step(1);  // another turn
    EXPECT_THROW(run_step(context_, "step", 1, [] { throw std::logic_error("it failed"); }),
                 std::logic_error);
    EXPECT_EQ(calls.entered.size(), entered);
  }
  profiler_->end_run(context_);
  ASSERT_EQ(profiles_.size(), 1U);
  EXPECT_EQ(names(profiles_[0]),
            (std::vector<std::string>{"encoder.l1 forward", "encoder forward", "step 1"}));
}

TEST_F(ProfilerTest, ClosesInTheMidstOfAStep) {
  FakeTrace::Calls calls;
  profile(1, 1, std::make_unique<FakeTrace>(calls));
  run_step(context_, "step", 1, [&] {
    const Span span(context_, "encoder");
    profiler_->close();
  });
  EXPECT_TRUE(calls.gone);
  EXPECT_EQ(calls.depth, 0);
  EXPECT_TRUE(profiles_.empty());
}

TEST_F(ProfilerTest, HandsOverWhatARunThatEndsEarlyLeft) {
  profile(2, 9);
  step(1);
  profiler_->end_run(context_);
  EXPECT_TRUE(profiles_.empty());
  step(2);
  profiler_->end_run(context_);
  ASSERT_EQ(profiles_.size(), 1U);
  EXPECT_EQ(profiles_[0].last_step, 2);
}

TEST_F(ProfilerTest, TellsADeviceOfEverySpan) {
  FakeTrace::Calls calls;
  calls.log.names = {"kernel"};
  calls.log.work.push_back({1, 2, 0, 0, 0});
  profile(2, 2, std::make_unique<FakeTrace>(calls));
  step(1);  // not recorded, but what is captured in it may run later
  EXPECT_EQ(calls.entered,
            (std::vector<std::string>{"step 1", "encoder forward", "encoder.l1 forward"}));
  EXPECT_EQ(calls.starts, 0);
  step(2);
  EXPECT_EQ(calls.depth, 0);
  EXPECT_EQ(calls.starts, 1);
  EXPECT_EQ(calls.stops, 1);
  ASSERT_EQ(profiles_.size(), 1U);
  EXPECT_TRUE(profiles_[0].has_device);
  EXPECT_EQ(profiles_[0].device.work.size(), 1U);
}

TEST_F(ProfilerTest, HasTheHostsTimesWhereADeviceCantBeRecorded) {
  FakeTrace::Calls calls;
  calls.log.faults = {"it is not recorded: no such library"};
  profile(1, 1, std::make_unique<FakeTrace>(calls));
  step(1);
  ASSERT_EQ(profiles_.size(), 1U);
  EXPECT_FALSE(profiles_[0].has_device);
  EXPECT_EQ(profiles_[0].device.faults, calls.log.faults);
}

TEST_F(ProfilerTest, CountsWhatADeviceHoldsToo) {
  FakeTrace::Calls calls;
  profile(1, 100, std::make_unique<FakeTrace>(calls), 50);
  step(1);
  EXPECT_TRUE(profiles_.empty());
  calls.size = 50;
  step(2);
  ASSERT_EQ(profiles_.size(), 1U);
  EXPECT_TRUE(profiles_[0].full);
}

TEST_F(ProfilerTest, CostsNothingWhereNobodyWatches) {
  int done = 0;
  run_step(context_, "step", 1, [&] {
    const Span span(context_, "encoder");
    const LayerSpan layer(context_.profiler(), 0);
    ++done;
  });
  EXPECT_EQ(done, 1);
}

}  // namespace
}  // namespace sluice::runtime
