// Runs of several ranks, of every kind of model: the losses of one rank, and how they go on.
#include "unit/training/ranked_runs.h"

#include "unit/training/reversal_task.h"

namespace sluice::training {
namespace {

TEST_P(RankedRunsTest, Pairs) {
  use_pairs();
  expect_ranks_run_as_one();
}

TEST_P(RankedRunsTest, PairsWithAccumulationAndAveragedWeights) {
  use_pairs();
  config_.loop.accumulate = 3;
  config_.optimizer.ema_decay = 0.9;
  expect_ranks_run_as_one();
}

TEST_P(RankedRunsTest, PairsWhereEachRankStepsItsPart) {
  use_pairs();
  config_.distributed.shard = true;
  config_.optimizer.ema_decay = 0.9;
  expect_ranks_run_as_one();
}

TEST_P(RankedRunsTest, Texts) {
  use_text(0);
  expect_ranks_run_as_one();
}

TEST_P(RankedRunsTest, RunningText) {
  use_text(4);
  expect_ranks_run_as_one();
}

TEST_P(RankedRunsTest, Tags) {
  use_tags();
  expect_ranks_run_as_one();
}

TEST_P(RankedRunsTest, Classes) {
  use_classes();
  expect_ranks_run_as_one();
}

TEST_P(RankedRunsTest, Frames) {
  use_frames();
  expect_ranks_run_as_one();
}

/// At one number of ranks a run that stopped now and then ends with the bits of one that did not.
TEST_P(RankedRunsTest, ResumedRunsEndWithTheSameBits) {
  for (const std::int64_t bptt : {0, 4}) {
    use_text(bptt);
    config_.optimizer.optimizer = "adam";
    config_.distributed.shard = bptt == 4;
    config_.loop.max_steps = 13;
    const std::string whole = "whole" + std::to_string(bptt), cut = "cut" + std::to_string(bptt);
    by_ranks(3, whole);
    for (const std::int64_t steps : {1, 4, 5, 9, 13}) by_ranks(3, cut, steps);
    EXPECT_EQ(outcome_of(folder_ / cut, false), outcome_of(folder_ / whole, false)) << bptt;
  }
}

/// All ranks stop before the same step, and what is saved is whole.
TEST_P(RankedRunsTest, StopTogether) {
  use_text(0);
  const TrainConfig config = config_in("run", 0);
  std::atomic<bool> stop = false;
  std::vector<TrainResult> results(3);
  const auto thrown = testing::on_ranks(3, [&](distributed::Communicator& rank) {
    TrainHooks hooks;
    if (rank.rank() == 0) hooks.stop = &stop;
    hooks.on_validation = [&](const ValidationReport&) { stop = true; };
    results[static_cast<std::size_t>(rank.rank())] = train(config, &rank, hooks);
  });
  EXPECT_EQ(thrown, testing::no_errors(3));
  for (const TrainResult& result : results) {
    EXPECT_EQ(result.outcome, TrainOutcome::kStopped);
    EXPECT_EQ(result.step, config.loop.validate_every);
    EXPECT_TRUE(result.best.known);
    EXPECT_EQ(result.best.value, results[0].best.value);
  }
  EXPECT_EQ(std::ssize(by_ranks(2, "run")), 2 * (config_.loop.max_steps - results[0].step));
}

TEST_P(RankedRunsTest, RefuseToDiffer) {
  use_text(0);
  const auto thrown = testing::on_ranks(2, [&](distributed::Communicator& rank) {
    TrainConfig config = config_in("run", 0);
    if (rank.rank() == 1) config.loop.seed = 2;
    run(config, &rank);
  });
  for (const std::string& one : thrown) {
    EXPECT_NE(one.find("rank 1 has another configuration than rank 0"), std::string::npos) << one;
  }
}

/// The first rank throws from a hook in the midst of the run: the others end with its sentence, and
/// the last checkpoint is whole.
TEST_P(RankedRunsTest, OneThatFailsInMidRunEndsAll) {
  use_text(4);
  const TrainConfig config = config_in("run", 0);
  const auto thrown = testing::on_ranks(3, [&](distributed::Communicator& rank) {
    TrainHooks hooks;
    hooks.on_step = [](const StepReport& report) {
      if (report.step == 7) throw Error(ErrorCode::kNumeric, "seven is enough");
    };
    train(config, &rank, hooks);
  });
  for (const std::string& one : thrown) EXPECT_EQ(one, "seven is enough");
  EXPECT_LE(std::ssize(by_ranks(3, "run")), 2 * (config_.loop.max_steps - 5));
}

TEST_P(RankedRunsTest, RefuseToChooseByTheClock) {
  use_text(0);
  const auto thrown = testing::on_ranks(2, [&](distributed::Communicator& rank) {
    TrainConfig config = config_in("run", 0);
    config.autotune = true;
    run(config, &rank);
  });
  for (const std::string& one : thrown) {
    EXPECT_NE(one.find("machine.autotune is true, but 2 ranks"), std::string::npos) << one;
  }
}

/// A rank that fails before the run leaves what there was.
TEST_P(RankedRunsTest, OneThatFailsEndsAll) {
  use_text(0);
  by_ranks(2, "run", 3);
  const Outcome before = outcome_of(folder_ / "run", false);
  const TrainConfig config = config_in("run", 0);
  const auto thrown = testing::on_ranks(2, [&](distributed::Communicator& rank) {
    if (rank.rank() == 1) throw Error(ErrorCode::kDevice, "the cable is loose");
    run(config, &rank);
  });
  for (const std::string& one : thrown) EXPECT_EQ(one, "the cable is loose");
  EXPECT_EQ(outcome_of(folder_ / "run", false), before);
}

INSTANTIATE_TEST_SUITE_P(Devices, RankedRunsTest, testing::host_devices());

}  // namespace
}  // namespace sluice::training
