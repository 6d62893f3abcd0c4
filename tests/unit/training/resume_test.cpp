// Runs that are interrupted, by request or by SIGKILL, end with the bits of those that are not.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <random>

#include "unit/support/on_device.h"
#include "unit/support/temporary_folder.h"
#include "unit/training/reversal_task.h"

namespace sluice::training {
namespace {

using Resume = testing::OnDevice;

// With few checkpoints: how often one is written must not show in the outcome.
Outcome uninterrupted(const Context& context, const std::filesystem::path& output,
                      std::int64_t threads = 1) {
  TrainConfig config = reversal_config(output);
  config.threads = threads;
  config.loop.checkpoint_every = 8;
  Trainer(context, config, reversal_data(config), Start::kFresh).run();
  return outcome_of(output);
}

// The state names the device, which is all that may differ.
std::string without_device(std::string state) {
  const std::size_t begin = state.find("\"device\"");
  EXPECT_NE(begin, std::string::npos);
  return state.substr(0, begin);
}

// With static shapes on both, which is where the test device captures steps and the cpu can't.
TEST(ResumeState, OfTheTestDeviceIsThatOfTheCpuToTheBit) {
  const testing::TemporaryFolder folder;
  const auto train = [&](const char* name) {
    const auto device = runtime::open_device(name);
    TrainConfig config = reversal_config(folder / name);
    config.static_shapes = "on";
    config.loop.checkpoint_every = 8;
    const Context context(*device);
    Trainer(context, config, reversal_data(config), Start::kFresh).run();
    Outcome outcome = outcome_of(folder / name);
    outcome.state = without_device(outcome.state);
    return outcome;
  };
  EXPECT_EQ(train("cpu"), train("test"));
}

// Stopped by request again and again, now and then in the midst of a validation, and carried on
// with other limits and other checkpoint intervals.
TEST_P(Resume, StoppedByRequest) {
  const testing::TemporaryFolder folder;
  std::mt19937_64 random(std::random_device{}());
  const std::uint64_t seed = random();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  random.seed(seed);
  TrainConfig config = reversal_config(folder / "cut");
  config.threads = static_cast<std::int64_t>(1 + random() % 2);
  uninterrupted(context_, folder / "whole", config.threads);
  const std::int64_t steps = config.loop.max_steps;
  int runs = 0;
  for (std::int64_t step = 0; step < steps; ++runs) {
    ASSERT_LT(runs, 100);
    config.loop.checkpoint_every = static_cast<std::int64_t>(1 + random() % 5);
    // A limit off the validation schedule brings a validation that must leave no trace.
    config.loop.max_steps = std::min<std::int64_t>(steps, step + 1 + random() % 5);
    std::atomic<bool> stop = random() % 8 == 0;
    const std::int64_t stop_at = step + static_cast<std::int64_t>(random() % 6);
    TrainHooks hooks;
    hooks.stop = &stop;
    hooks.on_step = [&](const StepReport& report) { stop = report.step >= stop_at; };
    step = Trainer(context_, config, reversal_data(config), Start::kResume).run(hooks).step;
  }
  config.loop.max_steps = steps;
  config.loop.checkpoint_every = 1;
  Trainer(context_, config, reversal_data(config), Start::kResume).run();
  EXPECT_GT(runs, 3);
  // A validation off the schedule may have kept a better model, and nothing else.
  EXPECT_EQ(outcome_of(folder / "cut", false), outcome_of(folder / "whole", false));
}

// Batches of a step are never parted: what is saved is the state between two steps.
TEST_P(Resume, OfStepsOfSeveralBatches) {
  const testing::TemporaryFolder folder;
  TrainConfig config = reversal_config(folder / "whole");
  config.static_shapes = "on";
  config.loop.accumulate = 3;
  Trainer(context_, config, reversal_data(config), Start::kFresh).run();
  const std::int64_t steps = config.loop.max_steps;
  config.output.directory = folder / "cut";
  for (const std::int64_t last : {1, 2, 5, 8, 9, 10, 14, 19}) {
    config.loop.max_steps = last;
    Trainer(context_, config, reversal_data(config), Start::kResume).run();
  }
  config.loop.max_steps = steps;
  Trainer(context_, config, reversal_data(config), Start::kResume).run();
  EXPECT_EQ(outcome_of(folder / "cut", false), outcome_of(folder / "whole", false));

  config.loop.accumulate = 2;
  const Error error =
      testing::error_of([&] { Trainer(context_, config, reversal_data(config), Start::kResume); });
  EXPECT_NE(std::string(error.what()).find("training.accumulate (3, now 2)"), std::string::npos)
      << error.what();
}

// The share of predictions is a function of the step, which a captured step reads on the device.
TEST_P(Resume, OfScheduledSampling) {
  const testing::TemporaryFolder folder;
  const auto check = [&](bool draw) {
    const std::string whole = draw ? "whole-drawn" : "whole", cut = draw ? "cut-drawn" : "cut";
    TrainConfig config = reversal_config(folder / whole);
    config.static_shapes = "on";
    config.sampling = {"linear", 25, 0.9, draw};
    Trainer(context_, config, reversal_data(config), Start::kFresh).run();
    const std::int64_t steps = config.loop.max_steps;
    config.output.directory = folder / cut;
    for (const std::int64_t last : {1, 6, 7, 13, 19}) {
      config.loop.max_steps = last;
      Trainer(context_, config, reversal_data(config), Start::kResume).run();
    }
    config.loop.max_steps = steps;
    Trainer(context_, config, reversal_data(config), Start::kResume).run();
    EXPECT_EQ(outcome_of(folder / cut, false), outcome_of(folder / whole, false)) << draw;
  };
  check(false);
  check(true);
  TrainConfig forced = reversal_config(folder / "forced");
  forced.static_shapes = "on";
  Trainer(context_, forced, reversal_data(forced), Start::kFresh).run();
  // Of weights and moments alone, as the state names the configuration.
  const auto tensors = [&](const char* name) { return outcome_of(folder / name, false).tensors; };
  EXPECT_NE(tensors("whole"), tensors("whole-drawn"));
  EXPECT_NE(tensors("forced"), tensors("whole"));
  EXPECT_NE(tensors("forced"), tensors("whole-drawn"));
}

// Cut where validations are due, so that the best model, of averaged weights, is the same too.
TEST_P(Resume, OfAveragedWeights) {
  const testing::TemporaryFolder folder;
  TrainConfig config = reversal_config(folder / "whole");
  config.optimizer.ema_decay = 0.9;
  config.loop.max_steps = 20;
  Trainer(context_, config, reversal_data(config), Start::kFresh).run();
  config.output.directory = folder / "cut";
  for (const std::int64_t last : {2, 4, 10, 12, 20}) {
    config.loop.max_steps = last;
    Trainer(context_, config, reversal_data(config), Start::kResume).run();
  }
  const Outcome cut = outcome_of(folder / "cut"), whole = outcome_of(folder / "whole");
  EXPECT_EQ(cut, whole);
  EXPECT_TRUE(std::any_of(
      cut.tensor_names.begin(), cut.tensor_names.end(),
      [](const std::string& name) { return name.starts_with("optimizer.average_sum."); }));
}

// What was measured before the stop is not measured again: it could turn out otherwise.
TEST_P(Resume, KeepsMeasuredChoices) {
  const testing::TemporaryFolder folder;
  TrainConfig config = reversal_config(folder / "run");
  const std::int64_t steps = config.loop.max_steps;
  config.loop.max_steps = steps / 2;
  runtime::Tuning first;
  context_.set_tuning(&first);
  Trainer(context_, config, reversal_data(config), Start::kFresh).run();
  if (first.choices().empty()) GTEST_SKIP() << "only one implementation runs here";

  config.loop.max_steps = steps;
  runtime::Tuning second;
  context_.set_tuning(&second);
  Trainer resumed(context_, config, reversal_data(config), Start::kResume);
  EXPECT_EQ(second.choices(), first.choices());
  resumed.run();
  for (const auto& [problem, implementation] : first.choices()) {
    ASSERT_NE(second.find(problem), nullptr) << problem;
    EXPECT_EQ(*second.find(problem), implementation) << problem;
  }
  EXPECT_EQ(resumed.state().tuning, second.choices());
}

// A training process of the run in `output`.
class Child {
 public:
  Child(const std::filesystem::path& output, const char* device, const DeathInWriting& death = {})
      : state_file_(output / "last" / "training_state.safetensors"),
        id_(spawn_training(output, device, death)) {
    EXPECT_GT(id_, 0);
  }
  ~Child() { kill_it(); }

  void wait_for_checkpoint() {
    const auto before = written();
    while (!finished() && written() == before) ::usleep(500);
  }
  void wait() {
    if (finished()) return;
    EXPECT_EQ(::waitpid(id_, &status_, 0), id_);
    finished_ = true;
  }
  void kill_it() {
    if (finished()) return;
    ::kill(id_, SIGKILL);
    wait();
  }
  bool finished() {
    if (!finished_) finished_ = ::waitpid(id_, &status_, WNOHANG) == id_;
    return finished_;
  }
  // False too if it was killed.
  bool succeeded() const { return WIFEXITED(status_) && WEXITSTATUS(status_) == 0; }
  bool was_killed() const { return WIFSIGNALED(status_) && WTERMSIG(status_) == SIGKILL; }

 private:
  std::filesystem::file_time_type written() const {
    std::error_code none_yet;
    return std::filesystem::last_write_time(state_file_, none_yet);
  }

  std::filesystem::path state_file_;
  int id_;
  int status_ = 0;
  bool finished_ = false;
};

bool is_left_of_a_writer(const std::filesystem::path& output) {
  return std::filesystem::exists(output / "last.sluice-tmp") ||
         std::filesystem::exists(output / "best.sluice-tmp");
}

TEST_P(Resume, KilledAtAnyMoment) {
  const testing::TemporaryFolder folder;
  const Outcome expected = uninterrupted(context_, folder / "whole");
  const std::filesystem::path output = folder / "killed";
  std::mt19937_64 random(std::random_device{}());
  const std::uint64_t seed = random();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  random.seed(seed);
  // A checkpoint a step, so most of the time is spent in writing one. Waiting for one lets the run
  // get on however slow the machine is; now and then it is killed as it starts.
  constexpr int kMostKills = 60;
  int killed = 0;
  while (true) {
    Child child(output, GetParam());
    if (killed == kMostKills) {
      child.wait();
    } else if (random() % 8 != 0) {
      child.wait_for_checkpoint();
    }
    ::usleep(static_cast<useconds_t>(random() % 40'000));
    child.kill_it();
    if (child.succeeded()) break;
    ASSERT_TRUE(child.was_killed()) << "the training process failed";
    ++killed;
  }
  EXPECT_GT(killed, 0);
  EXPECT_EQ(outcome_of(output), expected);
}

// At a byte that is drawn, of the model or of what lies beside it: at the first checkpoint there
// is, and at later ones, which have one to replace.
TEST_P(Resume, KilledWhileWriting) {
  const testing::TemporaryFolder folder;
  const Outcome expected = uninterrupted(context_, folder / "whole");
  const auto largest = static_cast<std::int64_t>(
      std::filesystem::file_size(folder / "whole" / "last" / "training_state.safetensors"));
  // No file of metrics is as large, so that none is what the process dies of.
  constexpr std::int64_t kSmallest = 10'000;
  ASSERT_GT(largest, 2 * kSmallest);
  const std::filesystem::path output = folder / "killed";
  std::mt19937_64 random(std::random_device{}());
  const std::uint64_t seed = random();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  random.seed(seed);
  for (int i = 0; i < 5; ++i) {
    DeathInWriting death;
    death.after_steps = static_cast<std::int64_t>(i == 0 ? 1 : 1 + random() % 4);
    death.bytes = kSmallest + static_cast<std::int64_t>(
                                  random() % static_cast<std::uint64_t>(largest - kSmallest));
    SCOPED_TRACE(::testing::Message() << "kill " << i << " at byte " << death.bytes);
    Child child(output, GetParam(), death);
    child.wait();
    ASSERT_TRUE(child.was_killed());
    ASSERT_TRUE(is_left_of_a_writer(output));
  }
  Child child(output, GetParam());
  child.wait();
  EXPECT_TRUE(child.succeeded());
  EXPECT_EQ(outcome_of(output), expected);
}

INSTANTIATE_TEST_SUITE_P(Devices, Resume, testing::devices(), testing::device_name);

}  // namespace
}  // namespace sluice::training
