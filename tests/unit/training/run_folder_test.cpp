#include "training/run_folder.h"

#include <sys/wait.h>

#include <array>

#include "unit/support/on_device.h"
#include "unit/support/temporary_folder.h"
#include "unit/training/reversal_task.h"

namespace sluice::training {
namespace {

std::string refusal_of(const std::filesystem::path& folder) {
  return "another process is training in '" + folder.native() +
         "': wait for it or choose another folder";
}

// The exit code of a training process; -1 if a signal ended it.
int exit_code(int child) {
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(RunFolder, IsHeldUntilItsHolderIsGone) {
  const testing::TemporaryFolder folder;
  std::filesystem::create_directory(folder / "run");
  const auto claim = [&] { const RunFolder again(folder / "run"); };
  {
    RunFolder first(folder / "run");
    const RunFolder moved(std::move(first));
    EXPECT_EQ(moved.last(), folder / "run" / "last");
    const Error error = testing::error_of(claim);
    EXPECT_EQ(error.code(), ErrorCode::kIo);
    EXPECT_EQ(error.what(), refusal_of(folder / "run"));
  }
  claim();
}

TEST(RunFolder, IsNoCheckpointFolder) {
  const testing::TemporaryFolder folder;
  std::filesystem::create_directories(folder / "run" / "best");
  folder.write("run/best/model.safetensors", "x");
  const Error error = testing::error_of([&] { RunFolder claimed(folder / "run" / "best"); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_NE(std::string(error.what()).find("/run/best' is a checkpoint folder"), std::string::npos)
      << error.what();
  { const RunFolder around(folder / "run"); }
}

TEST(RunFolder, LeavesNoEmptyFolderOfItsOwn) {
  const testing::TemporaryFolder folder;
  { const RunFolder made(folder / "run"); }
  EXPECT_FALSE(std::filesystem::exists(folder / "run"));
  std::filesystem::create_directory(folder / "there before");
  { const RunFolder found(folder / "there before"); }
  EXPECT_TRUE(std::filesystem::exists(folder / "there before"));
  const auto file = folder.write("file", "x");
  EXPECT_EQ(testing::error_of([&] { RunFolder claimed(file); }).code(), ErrorCode::kIo);
}

TEST(RunFolder, AnotherProcessIsRefusedWithOneSentence) {
  const testing::TemporaryFolder folder;
  const auto output = folder / "run";
  int code = 0;
  ::testing::internal::CaptureStderr();
  {
    const RunFolder held(output);
    code = exit_code(spawn_training(output, "cpu"));
    EXPECT_TRUE(std::filesystem::is_empty(output));
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "training failed: " + refusal_of(output) + "\n");
  EXPECT_EQ(code, 1);
}

// Whoever comes second is refused, and the first is none the worse for it.
TEST(RunFolder, ProcessesStartedTogetherSpoilNothing) {
  const testing::TemporaryFolder folder;
  ASSERT_EQ(exit_code(spawn_training(folder / "alone", "cpu")), 0);
  const auto output = folder / "together";
  ::testing::internal::CaptureStderr();
  std::array<int, 4> children{};
  for (int& child : children) child = spawn_training(output, "cpu");
  int trained = 0;
  int refused = 0;
  for (const int child : children) {
    const int code = exit_code(child);
    trained += code == 0 ? 1 : 0;
    refused += code == 1 ? 1 : 0;
  }
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_GE(trained, 1) << said;
  EXPECT_EQ(trained + refused, static_cast<int>(children.size())) << said;
  std::string expected;
  for (int i = 0; i < refused; ++i) expected += "training failed: " + refusal_of(output) + "\n";
  EXPECT_EQ(said, expected);
  EXPECT_EQ(outcome_of(output), outcome_of(folder / "alone"));
}

using TrainerFolder = testing::OnDevice;

// From before the trainer looks at what is in the folder, also while it doesn't run.
TEST_P(TrainerFolder, BelongsToOneTrainer) {
  const testing::TemporaryFolder folder;
  const auto output = folder / "run";
  TrainConfig config = reversal_config(output);
  config.loop.max_steps = 2;
  const auto train = [&] {
    return Trainer(context_, config, reversal_data(config), Start::kResume).run();
  };
  {
    Trainer first(context_, config, reversal_data(config), Start::kFresh);
    EXPECT_EQ(testing::error_of(train).what(), refusal_of(output));
    EXPECT_TRUE(std::filesystem::is_empty(output));
    first.run();
    const Outcome before = outcome_of(output);
    config.loop.max_steps = 4;
    EXPECT_EQ(testing::error_of(train).what(), refusal_of(output));
    EXPECT_EQ(outcome_of(output), before);
  }
  EXPECT_EQ(train().step, 4);
}

INSTANTIATE_TEST_SUITE_P(Devices, TrainerFolder, testing::devices(), testing::device_name);

}  // namespace
}  // namespace sluice::training
