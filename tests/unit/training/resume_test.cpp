// Runs that are interrupted, by request or by SIGKILL, end with the bits of those that are not.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <random>

#include "unit/support/temporary_folder.h"
#include "unit/training/reversal_task.h"

namespace sluice::training {
namespace {

Outcome uninterrupted(const std::filesystem::path& output, const char* device_name = "cpu") {
  const auto device = runtime::open_device(device_name);
  const Context context(*device);
  const TrainConfig config = reversal_config(output);
  Trainer(context, config, reversal_data(config), Start::kFresh).run();
  return outcome_of(output);
}

// The state names the device, which is all that may differ.
std::string without_device(std::string state) {
  const std::size_t begin = state.find("\"device\"");
  EXPECT_NE(begin, std::string::npos);
  return state.substr(0, begin);
}

TEST(Resume, TheTestDeviceGivesTheBitsOfTheCpu) {
  const testing::TemporaryFolder folder;
  Outcome cpu = uninterrupted(folder / "cpu");
  Outcome test = uninterrupted(folder / "test", "test");
  cpu.state = without_device(cpu.state);
  test.state = without_device(test.state);
  EXPECT_EQ(cpu, test);
}

// Stopped by request again and again, now and then in the midst of a validation, and carried on
// with other limits and other checkpoint intervals.
TEST(Resume, StoppedByRequest) {
  const testing::TemporaryFolder folder;
  uninterrupted(folder / "whole");
  const auto device = runtime::open_device("cpu");
  const Context context(*device);
  std::mt19937_64 random(std::random_device{}());
  const std::uint64_t seed = random();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  random.seed(seed);
  TrainConfig config = reversal_config(folder / "cut");
  int runs = 0;
  for (std::int64_t step = 0; step < 30; ++runs) {
    ASSERT_LT(runs, 100);
    config.loop.checkpoint_every = static_cast<std::int64_t>(1 + random() % 5);
    // A limit off the validation schedule brings a validation that must leave no trace.
    config.loop.max_steps = std::min<std::int64_t>(30, step + 1 + random() % 9);
    std::atomic<bool> stop = random() % 8 == 0;
    const std::int64_t stop_at = step + static_cast<std::int64_t>(random() % 9);
    TrainHooks hooks;
    hooks.stop = &stop;
    hooks.on_step = [&](const StepReport& report) { stop = report.step >= stop_at; };
    step = Trainer(context, config, reversal_data(config), Start::kResume).run(hooks).step;
  }
  config.loop.max_steps = 30;
  config.loop.checkpoint_every = 1;
  Trainer(context, config, reversal_data(config), Start::kResume).run();
  EXPECT_GT(runs, 3);
  // A validation off the schedule may have kept a better model, and nothing else.
  EXPECT_EQ(outcome_of(folder / "cut", false), outcome_of(folder / "whole", false));
}

// Waits for a child; its exit status, or -1 if a signal ended it.
int wait_for(int child) {
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Resume, KilledAtAnyMoment) {
  const testing::TemporaryFolder folder;
  const Outcome expected = uninterrupted(folder / "whole");
  const std::filesystem::path output = folder / "killed";
  std::mt19937_64 random(std::random_device{}());
  const std::uint64_t seed = random();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  random.seed(seed);
  // A checkpoint a step, so most of the time is spent in writing one. Delays grow, so that on a
  // slow machine too the run gets on.
  int killed = 0;
  int in_writing = 0;
  for (int round = 0;; ++round) {
    const int child = spawn_training(output, "cpu");
    ASSERT_GT(child, 0);
    if (round < 25) {
      ::usleep(static_cast<useconds_t>(
          20'000 + random() % static_cast<std::uint64_t>(100'000 + 4'000 * round)));
      ::kill(child, SIGKILL);
    }
    const int status = wait_for(child);
    if (status == 0) break;
    ASSERT_EQ(status, -1) << "the training process failed";
    ++killed;
    in_writing += std::filesystem::exists(output / "last.sluice-tmp") ? 1 : 0;
  }
  RecordProperty("killed", killed);
  RecordProperty("killed_in_writing", in_writing);
  EXPECT_GT(killed, 0);
  EXPECT_EQ(outcome_of(output), expected);
}

}  // namespace
}  // namespace sluice::training
