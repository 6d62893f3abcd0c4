// Runs whose ranks step apart: by themselves between means, or on parameters that they share.
#include <array>

#include "models/seq2seq.h"
#include "training/ranks/shared_parameters.h"
#include "unit/support/message_of.h"
#include "unit/training/ranked_runs.h"
#include "unit/training/reversal_task.h"

namespace sluice::training {
namespace {

class ApartRunsTest : public RankedRunsTest {
 protected:
  ApartRunsTest() {
    use_pairs();
    config_.loop.validate_every = config_.loop.checkpoint_every = 20;  // where all meet
  }

  void average_every(std::int64_t steps) {
    config_.distributed.mode = "average";
    config_.distributed.average_every = steps;
  }

  /// All that rank 0 is told of steps.
  std::vector<StepReport> reports(std::int64_t count, const std::string& folder) const {
    const TrainConfig config = config_in(folder, 0);
    std::vector<StepReport> all;
    const auto thrown = testing::on_ranks(count, [&](distributed::Communicator& rank) {
      TrainHooks hooks;
      if (rank.rank() == 0) hooks.on_step = [&](const StepReport& one) { all.push_back(one); };
      train(config, &rank, hooks);
    });
    EXPECT_EQ(thrown, testing::no_errors(count));
    return all;
  }

  static std::int64_t tokens_of(const std::vector<StepReport>& reports) {
    std::int64_t tokens = 0;
    for (const StepReport& one : reports) tokens += one.target_tokens;
    return tokens;
  }

  /// The loss of the last validation that a run in this folder has in its state.
  double best_of(const std::string& folder) const {
    const auto device = runtime::open_device(GetParam());
    const Context context(*device);
    Trainer trainer(context, config_in(folder, 0),
                    task_of(config_).read_data(config_in(folder, 0), nullptr), Start::kResume);
    EXPECT_TRUE(trainer.state().best.known);
    return trainer.state().best.value;
  }
};

/// Plain steps by gradients of as many times the loss, whose mean is the gradient of all.
TEST_P(ApartRunsTest, MeansAfterEachStepAreStepsTogether) {
  SCOPED_TRACE(::testing::Message() << "seed " << seed_);
  config_.optimizer.momentum = 0;
  config_.optimizer.clip_norm = 0;
  const auto losses_of = [](const Curve& curve) {
    Curve losses;  // norms are those of rank 0's own gradients
    for (std::size_t i = 0; i < curve.size(); i += 2) losses.push_back(curve[i]);
    return losses;
  };
  const Curve alone = losses_of(run(config_in("alone", 0), nullptr));
  const double most =
      10 * std::max(distance(alone, losses_of(run(config_in("up", 0), nullptr, 1))),
                    distance(alone, losses_of(run(config_in("down", 0), nullptr, -1))));
  average_every(1);
  for (const std::int64_t ranks : {1, 2, 3}) {
    const std::string folder = "ranks" + std::to_string(ranks);
    EXPECT_LE(distance(alone, losses_of(by_ranks(ranks, folder))), most) << ranks;
  }
  average_every(4);
  EXPECT_GT(distance(alone, losses_of(by_ranks(3, "every4"))), 3 * most);
}

TEST_P(ApartRunsTest, FirstStepsAreTogether) {
  config_.loop.accumulate = 2;
  const Curve together = by_ranks(3, "together");
  average_every(3);
  config_.distributed.average_from = config_.loop.max_steps;
  EXPECT_EQ(by_ranks(3, "all"), together);
  config_.distributed.average_from = 6;
  const Curve some = by_ranks(3, "some");
  ASSERT_EQ(some.size(), together.size());
  EXPECT_TRUE(std::equal(some.begin(), some.begin() + 12, together.begin()));
  EXPECT_NE(some, together);
}

TEST_P(ApartRunsTest, MeansOfAdamLearnAndGoOnToTheBit) {
  for (const std::int64_t bptt : {0, 4}) {
    config_.data = {};
    use_text(bptt);
    config_.optimizer.optimizer = "adam";
    config_.optimizer.ema_decay = 0.9;
    config_.loop.checkpoint_every = 4;
    average_every(4);
    const std::string whole = "whole" + std::to_string(bptt), cut = "cut" + std::to_string(bptt);
    const Curve curve = by_ranks(3, whole, 12);
    EXPECT_LT(curve[22], curve[0]);
    for (const std::int64_t steps : {4, 8, 12}) by_ranks(3, cut, steps);
    EXPECT_EQ(outcome_of(folder_ / cut, false), outcome_of(folder_ / whole, false)) << bptt;
  }
}

/// One asynchronous rank meets nobody.
TEST_P(ApartRunsTest, OneRankSharesWithItselfWhatItHas) {
  config_.optimizer.optimizer = "adam";
  config_.loop.accumulate = 2;
  const std::vector<StepReport> together = reports(1, "together");
  config_.distributed.mode = "async";
  const std::vector<StepReport> apart = reports(1, "apart");
  EXPECT_EQ(tokens_of(apart), tokens_of(together));
  // The folders differ in the mode that they name.
  EXPECT_EQ(outcome_of(folder_ / "apart", false).tensors,
            outcome_of(folder_ / "together", false).tensors);
}

/// Each batch is one rank's, none is left out, and all learn what one would.
TEST_P(ApartRunsTest, RanksShareTheBatches) {
  config_.loop.max_steps = 60;
  const std::int64_t tokens = tokens_of(reports(1, "alone"));
  config_.distributed.mode = "async";
  for (const std::int64_t ranks : {2, 4}) {
    const std::string folder = "ranks" + std::to_string(ranks);
    const std::vector<StepReport> told = reports(ranks, folder);
    EXPECT_EQ(tokens_of(told), tokens) << ranks;
    ASSERT_FALSE(told.empty());
    EXPECT_EQ(told.back().step, 60);
    std::int64_t steps = 0, ranks_tokens = 0;
    for (const StepReport& one : told) {
      ASSERT_EQ(std::ssize(one.ranks), ranks);
      for (const RankReport& rank : one.ranks) {
        steps += rank.steps;
        ranks_tokens += rank.target_tokens;
        EXPECT_EQ(rank.dropped, 0);
      }
    }
    EXPECT_EQ(steps, 60) << ranks;
    EXPECT_EQ(ranks_tokens, tokens) << ranks;
    EXPECT_LT(best_of(folder), 1.1 * best_of("alone")) << ranks;
  }
}

/// Three ranks that each apply no gradient unless nobody stepped meanwhile.
TEST_P(ApartRunsTest, GradientsThatAreTooOldAreDropped) {
  config_.distributed.mode = "async";
  config_.distributed.max_staleness = 0;
  config_.loop.max_steps = 40;
  RankReport all;
  for (const StepReport& one : reports(3, "run")) {
    for (const RankReport& rank : one.ranks) all += rank;
  }
  EXPECT_EQ(all.steps, 40);
  EXPECT_GT(all.dropped, 0) << "ranks took turns, or old gradients were applied";
  EXPECT_GE(3 * all.staleness, static_cast<double>(all.dropped));  // each is old by one at least
  EXPECT_LT(all.dropped, 40 * 3) << "nobody ever stepped";
}

TEST_P(ApartRunsTest, AsynchronousRanksStopTogetherAndGoOn) {
  config_.distributed.mode = "async";
  config_.loop.max_steps = 200;
  config_.loop.checkpoint_every = 100;
  config_.loop.validate_every = 50;
  const TrainConfig config = config_in("run", 0);
  std::atomic<bool> stop = false;
  std::vector<TrainResult> results(3);
  const auto thrown = testing::on_ranks(3, [&](distributed::Communicator& rank) {
    TrainHooks hooks;
    if (rank.rank() == 1) hooks.stop = &stop;
    hooks.on_validation = [&](const ValidationReport&) { stop = true; };
    results[static_cast<std::size_t>(rank.rank())] = train(config, &rank, hooks);
  });
  EXPECT_EQ(thrown, testing::no_errors(3));
  for (const TrainResult& result : results) {
    EXPECT_EQ(result.outcome, TrainOutcome::kStopped);
    EXPECT_EQ(result.step, results[0].step);
  }
  EXPECT_GE(results[0].step, 50);
  EXPECT_LT(results[0].step, 200);
  std::int64_t steps = 0;
  for (const StepReport& one : reports(2, "run")) {
    for (const RankReport& rank : one.ranks) steps += rank.steps;
  }
  EXPECT_EQ(steps, 200 - results[0].step);
}

/// Whenever a rank is asked to stop, also while others wait where all meet.
TEST_P(ApartRunsTest, AsynchronousRanksStopAtAnyMoment) {
  SCOPED_TRACE(::testing::Message() << "seed " << seed_);
  config_.distributed.mode = "async";
  config_.loop.max_steps = 60;
  config_.loop.checkpoint_every = 2;
  config_.loop.validate_every = 0;
  const TrainConfig config = config_in("run", 0);
  std::int64_t step = 0;
  for (int attempt = 0; attempt < 60 && step < 60; ++attempt) {
    std::vector<TrainResult> results(3);
    std::array<std::atomic<bool>, 3> stop{};
    const std::int64_t asked = step + 1 + static_cast<std::int64_t>(random_() % 9);
    const auto thrown = testing::on_ranks(3, [&](distributed::Communicator& rank) {
      const auto own = static_cast<std::size_t>(rank.rank());
      TrainHooks hooks;
      hooks.stop = &stop[own];
      hooks.on_step = [&](const StepReport& report) {
        if (report.step >= asked) stop[static_cast<std::size_t>(asked) % 3] = true;
      };
      results[own] = train(config, &rank, hooks);
    });
    ASSERT_EQ(thrown, testing::no_errors(3));
    for (const TrainResult& result : results) ASSERT_EQ(result.step, results[0].step);
    step = results[0].step;
  }
  EXPECT_EQ(step, 60);
}

/// One rank waits at step 10 and has drawn the next when another, still in step 10, is to stop.
TEST_P(ApartRunsTest, AllTakeTheSameStepForTheLast) {
  const auto thrown = testing::on_ranks(2, [&](distributed::Communicator& rank) {
    const auto device = runtime::open_device(GetParam());
    const Context context(*device);
    models::Seq2SeqConfig small;
    small.source_vocabulary = small.target_vocabulary = 9;
    small.embedding = small.hidden = 4;
    models::Seq2Seq model(small);
    model.parameters().allocate(context, runtime::DType::kFloat32, true);
    const Optimizer optimizer(context, model.parameters(), OptimizerConfig());
    SharedParameters shared(context, rank, model.parameters(), optimizer, 1);
    shared.begin(9);
    for (const std::int64_t drawer : {1, 0}) {
      if (rank.rank() == drawer) {
        EXPECT_EQ(shared.draw(), drawer == 1 ? 10 : 11);
      }
      rank.exchange("");
    }
    std::optional<std::int64_t> last;
    if (rank.rank() == 0) last = 10;
    if (rank.rank() == 1) shared.close();
    rank.exchange("");
    EXPECT_EQ(shared.draw(), std::nullopt);
    EXPECT_EQ(shared.end(context, last), 10);
    shared.finish();
  });
  EXPECT_EQ(thrown, testing::no_errors(2));
}

/// A mean of equal numbers can differ from them in the last bit.
TEST_P(ApartRunsTest, MeansLeaveFrozenParametersAlone) {
  config_.optimizer.freeze = "decoder.*";
  average_every(2);
  by_ranks(3, "run", 1);
  const auto frozen = [&] {
    const auto device = runtime::open_device(GetParam());
    const Context context(*device);
    const auto loaded = model_files::load_model(context, folder_ / "run/last", false);
    const layers::Parameters& parameters = loaded.model->parameters();
    std::vector<float> values;
    for (layers::ParameterId id = 0; id < parameters.specs().size(); ++id) {
      if (!parameters.specs()[id].name.starts_with("decoder.")) continue;
      const auto some = context.download<float>(parameters.value(id));
      values.insert(values.end(), some.begin(), some.end());
    }
    EXPECT_FALSE(values.empty());
    return values;
  };
  const std::vector<float> before = frozen();
  by_ranks(3, "run", 12);
  EXPECT_EQ(frozen(), before);
}

TEST_P(ApartRunsTest, OneThatFailsEndsAll) {
  config_.distributed.mode = "async";
  config_.loop.max_steps = 100'000;
  config_.loop.validate_every = 0;
  config_.loop.checkpoint_every = 50'000;
  const TrainConfig config = config_in("run", 0);
  const auto thrown = testing::on_ranks(3, [&](distributed::Communicator& rank) {
    TrainHooks hooks;
    hooks.on_step = [](const StepReport& report) {
      if (report.step >= 7) throw Error(ErrorCode::kNumeric, "seven is enough");
    };
    train(config, &rank, hooks);
  });
  for (const std::string& one : thrown) EXPECT_EQ(one, "seven is enough");
}

TEST_P(ApartRunsTest, RefuseWhatTheyCannotDo) {
  const auto refusal = [&](const char* setting) {
    TrainConfig config = config_in("run", 0);
    apply_override(config, setting);
    return testing::message_of([&] { config.validate(); });
  };
  config_.distributed.mode = "average";
  EXPECT_NE(refusal("distributed.shard=true").find("are for mode sync"), std::string::npos);
  EXPECT_NE(refusal("distributed.exchange=bfloat16").find("are for mode sync"), std::string::npos);
  config_.distributed.mode = "async";
  EXPECT_NE(refusal("machine.precision=float16").find("scale its loss"), std::string::npos);
  EXPECT_NE(refusal("training.ema_decay=0.9").find("no rank sees all steps"), std::string::npos);
  config_.data = {};
  use_text(0);
  EXPECT_NE(refusal("training.bptt=4").find("go to any rank"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Devices, ApartRunsTest, testing::host_devices());

}  // namespace
}  // namespace sluice::training
