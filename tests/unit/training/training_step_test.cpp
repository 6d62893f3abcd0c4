#include "training/training_step.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "data/corpus.h"
#include "models/seq2seq_training.h"
#include "training/averaged_weights.h"
#include "unit/support/on_device.h"

namespace sluice::training {
namespace {

/// Steps of a small model on random batches.
class TrainingStepTest : public testing::OnDevice {
 protected:
  static constexpr double kSmoothing = 0.1;
  static constexpr std::uint64_t kSeed = 5;

  struct Extent {
    std::int64_t rows, source, target;  ///< the longest, which the first row has
  };

  models::Seq2SeqConfig model_config() const {
    models::Seq2SeqConfig config;
    config.source_vocabulary = source_vocabulary_;
    config.target_vocabulary = target_vocabulary_;
    config.tie_embeddings = tie_;
    config.embedding = tie_ == "none" ? 8 : 16;
    config.hidden = 16;
    config.encoder_layers = 2;
    config.decoder_layers = 2;
    config.bidirectional = true;
    config.dropout = dropout_;
    return config;
  }

  data::PairCorpus draw_corpus(const Extent& extent) {
    data::PairCorpus corpus;
    const auto sentence = [&](std::int64_t length, int vocabulary) {
      std::vector<std::int32_t> tokens;
      for (std::int64_t i = 0; i < length; ++i) {
        tokens.push_back(4 + static_cast<std::int32_t>(random_() % (vocabulary - 4)));
      }
      return tokens;
    };
    for (std::int64_t row = 0; row < extent.rows; ++row) {
      const auto length = [&](std::int64_t most) {
        return row == 0 ? most : static_cast<std::int64_t>(random_() % (most + 1));
      };
      corpus.source.push_back(sentence(length(extent.source), source_vocabulary_));
      corpus.target.push_back(sentence(length(extent.target - 1), target_vocabulary_));
    }
    return corpus;
  }
  static data::Batch batch_of(const data::PairCorpus& corpus, std::int64_t begin,
                              std::int64_t end) {
    std::vector<std::int64_t> rows(static_cast<std::size_t>(end - begin));
    std::iota(rows.begin(), rows.end(), begin);
    return corpus.assemble(rows);
  }
  data::Batch draw(const Extent& extent) { return batch_of(draw_corpus(extent), 0, extent.rows); }
  std::vector<data::Batch> draw(std::initializer_list<Extent> extents) {
    std::vector<data::Batch> batches;
    for (const Extent& extent : extents) batches.push_back(draw(extent));
    return batches;
  }

  static double rate_of(std::int64_t step) { return 1e-2 / static_cast<double>(step); }

  struct Trained {
    std::vector<float> parameters, gradients;  ///< after the last step
    std::vector<double> losses, norms;

    bool operator==(const Trained&) const = default;
  };

  /// A step on each `accumulate_` batches.
  template <typename Step>
  Trained train(const std::vector<data::Batch>& batches, Step&& step_on) {
    Trained trained;
    std::int64_t step = 0;
    for (std::size_t begin = 0; begin < batches.size(); begin += accumulate_) {
      const std::size_t count = std::min(accumulate_, batches.size() - begin);
      const auto [loss, norm] = step_on(std::span(batches).subspan(begin, count), ++step);
      trained.losses.push_back(loss);
      trained.norms.push_back(norm);
    }
    return trained;
  }
  std::unique_ptr<models::Seq2Seq> make_model(bool marked = true) {
    auto model = std::make_unique<models::Seq2Seq>(model_config());
    layers::Parameters& parameters = model->parameters();
    for (layers::ParameterId id = 0; !marked && id < parameters.specs().size(); ++id) {
      parameters.set_marked(id, false);
    }
    model->parameters().allocate(context_, runtime::DType::kFloat32, true);
    model->parameters().initialize(context_, 3);
    return model;
  }

  Trained by_steps(const std::vector<data::Batch>& batches, bool static_shapes,
                   std::size_t* graphs = nullptr) {
    const auto model = make_model();
    TrainingStep steps(context_, *model, optimizer_, {kSmoothing, kSeed, static_shapes});
    Trained trained = train(batches, [&](const auto& some, std::int64_t step) {
      const StepSums sums = steps.run(context_, some, step, rate_of(step));
      return std::pair(get<double>(sums.loss)[0], get_scalar<double>(sums.gradient_squares));
    });
    trained.parameters = get<float>(model->parameters().values());
    trained.gradients = get<float>(model->parameters().gradients());
    if (graphs != nullptr) *graphs = steps.graphs();
    return trained;
  }

  /// The same of padded batches, never captured, each with a plan and memory of its own, without
  /// marks of what gradients touch.
  Trained by_hand(const std::vector<data::Batch>& batches) {
    const auto model = make_model(false);
    EXPECT_FALSE(model->parameters().gradient_marks().values);
    Optimizer optimizer(context_, model->parameters(), optimizer_);
    std::vector<std::unique_ptr<runtime::Arena>> arenas;
    Trained trained = train(batches, [&](const auto& some, std::int64_t step) {
      std::int64_t tokens = 0;
      for (const data::Batch& batch : some) tokens += batch.target_tokens();
      context_.zero(model->parameters().gradients());
      double loss = 0;
      model_files::BatchUpload upload;
      model_files::UploadedStep uploaded;
      for (const data::Batch& batch : some) {
        const models::Extent capacity =
            model_files::PlanCache::capacity_of(model_files::extent_of(batch));
        runtime::ArenaPlanner planner;
        models::Seq2SeqTraining plan(context_, *model, planner, capacity, true);
        arenas.push_back(std::make_unique<runtime::Arena>(*device_, planner));
        uploaded = upload.upload(context_, batch, capacity,
                                 {step, rate_of(step), 1.0 / static_cast<double>(tokens)});
        models::Pass pass{kSmoothing, uploaded.scale, {}};
        pass.dropout = {kSeed, uploaded.step.data_as<const std::int32_t>(), 0};
        const Tensor sums = plan.forward_backward(context_, *arenas.back(), uploaded.batch, pass);
        loss += get<double>(sums)[0];
      }
      optimizer.step(context_, uploaded.step, uploaded.learning_rate);
      return std::pair(loss, get_scalar<double>(optimizer.sum_of_squares()));
    });
    trained.parameters = get<float>(model->parameters().values());
    trained.gradients = get<float>(model->parameters().gradients());
    return trained;
  }

  int source_vocabulary_ = 19, target_vocabulary_ = 23;
  std::string tie_ = "none";
  double dropout_ = 0.25;
  std::size_t accumulate_ = 1;
  OptimizerConfig optimizer_;
  std::mt19937 random_{7};
};

// All but the host's part of a step is replayed, so each number that is not the same in the next
// step, and each length and token, must have come from the device.
TEST_P(TrainingStepTest, CapturedStepsAreThoseThatAreQueued) {
  // One plan: rows up to 16, 8 source and 12 target steps.
  const auto batches = draw({{5, 7, 10}, {16, 8, 12}, {3, 5, 9}, {11, 8, 12}, {1, 6, 11}});
  std::size_t graphs = 0;
  const Trained captured = by_steps(batches, true, &graphs);
  EXPECT_EQ(graphs, context_.stream().can_capture() ? 1u : 0u);
  EXPECT_EQ(captured, by_hand(batches));
  optimizer_.optimizer = "sgd";
  optimizer_.momentum = 0.9;
  EXPECT_EQ(by_steps(batches, true), by_hand(batches));
}

/// Rows of an embedding that no token of a step touched are neither zeroed nor read; whoever else
/// touches the table, and however steps are made, nothing shows of that.
TEST_P(TrainingStepTest, UnmarkedRowsAreAsIfTheyWereRead) {
  source_vocabulary_ = target_vocabulary_ = 700;
  const auto batches = draw({{5, 7, 10}, {3, 5, 9}, {8, 8, 12}, {1, 6, 11}});
  struct Case {
    const char *tie, *optimizer;
    std::size_t accumulate;
    double momentum, clip_norm;
  };
  for (const Case& of : std::initializer_list<Case>{{"none", "adam", 1, 0, 0.5},
                                                    {"none", "sgd", 2, 0.9, 0},
                                                    {"decoder", "sgd", 1, 0, 0.5},
                                                    {"all", "adam", 2, 0, 0}}) {
    SCOPED_TRACE(::testing::Message() << of.tie << ' ' << of.optimizer);
    tie_ = of.tie;
    accumulate_ = of.accumulate;
    optimizer_.optimizer = of.optimizer;
    optimizer_.momentum = of.momentum;
    optimizer_.clip_norm = of.clip_norm;
    optimizer_.weight_decay = 0.1;
    EXPECT_EQ(static_cast<bool>(make_model()->parameters().gradient_marks().values), tie_ != "all");
    EXPECT_EQ(by_steps(batches, true), by_hand(batches));
    release_memory();
  }
}

// The last of three steps has 15 source and 18 target tokens; rows of 8 lie in one chunk each.
TEST_P(TrainingStepTest, OnlyRowsOfTheLastStepKeepMarks) {
  source_vocabulary_ = target_vocabulary_ = 700;
  const auto model = make_model();
  const layers::Parameters& parameters = model->parameters();
  TrainingStep steps(context_, *model, optimizer_, {kSmoothing, kSeed, true});
  std::int64_t step = 0;
  for (const data::Batch& batch : draw({{16, 8, 12}, {16, 8, 12}, {3, 5, 6}})) {
    steps.run(context_, {&batch, 1}, ++step, 1e-2);
  }
  const auto marks = get<std::uint8_t>(parameters.gradient_marks().values);
  EXPECT_LE(std::count(marks.begin(), marks.end(), kernels::kMarked), 15 + 18);
  const auto gradients = get<float>(parameters.gradients());
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (marks[i / kernels::kElementsPerMark] != kernels::kUnmarked) continue;
    ASSERT_EQ(gradients[i], 0) << i;
  }
}

TEST_P(TrainingStepTest, CapturedBatchesOfAStepAreThoseThatAreQueued) {
  accumulate_ = 3;
  const Extent small{5, 7, 10}, large{40, 17, 18};
  // The last step, of one batch alone, is not captured when it first comes.
  const auto batches = draw({small, large, small, small, small, large, large});
  std::size_t graphs = 0;
  const Trained captured = by_steps(batches, true, &graphs);
  EXPECT_GE(graphs, context_.stream().can_capture() ? 2u : 0u);
  EXPECT_EQ(captured, by_hand(batches));
  EXPECT_EQ(captured.losses.size(), 3u);
}

// Batches of unlike numbers of tokens; masks of dropout go by the example, so they are the same.
TEST_P(TrainingStepTest, SeveralBatchesAreAsOneOfAllTheirRows) {
  optimizer_.optimizer = "sgd";  // whose steps are as large as the gradients
  optimizer_.clip_norm = 0;
  const data::PairCorpus corpus = draw_corpus({24, 9, 11});
  const auto steps = [&](std::initializer_list<std::int64_t> bounds) {
    std::vector<data::Batch> batches;
    for (int repeat = 0; repeat < 3; ++repeat) {
      std::int64_t begin = 0;
      for (const std::int64_t end : bounds) {
        batches.push_back(batch_of(corpus, std::exchange(begin, end), end));
      }
    }
    accumulate_ = bounds.size();
    return by_steps(batches, true);
  };
  const Trained several = steps({2, 15, 24}), one = steps({24});
  ASSERT_EQ(several.losses.size(), one.losses.size());
  for (std::size_t i = 0; i < one.losses.size(); ++i) {
    EXPECT_NEAR(several.losses[i], one.losses[i], 1e-6 * one.losses[i]);
    EXPECT_NEAR(several.norms[i], one.norms[i], 1e-4 * one.norms[i]);
  }
  for (std::size_t i = 0; i < one.parameters.size(); ++i) {
    ASSERT_NEAR(several.parameters[i], one.parameters[i], 1e-6) << i;
  }
}

TEST_P(TrainingStepTest, CapturedStepsOutliveMemoryThatGrows) {
  const Extent small{5, 7, 10}, large{40, 17, 18};
  const auto batches = draw({small, small, small, large, small, large, small, small, large});
  std::size_t graphs = 0;
  EXPECT_EQ(by_steps(batches, true, &graphs), by_hand(batches));
  // That of the small ones from before remains unused, until others take its place.
  EXPECT_EQ(graphs, context_.stream().can_capture() ? 3u : 0u);
}

TEST_P(TrainingStepTest, PaddingChangesNothingButRoundings) {
  const auto batches = draw({{5, 7, 10}, {3, 1, 2}, {17, 4, 13}});
  const Trained padded = by_steps(batches, true), bare = by_steps(batches, false);
  for (std::size_t i = 0; i < batches.size(); ++i) {
    EXPECT_NEAR(padded.losses[i], bare.losses[i], 1e-5 * bare.losses[i]);
    EXPECT_NEAR(padded.norms[i], bare.norms[i], 1e-3 * bare.norms[i]);
  }
  // Adam's first steps are of the size of the learning rate, whatever the gradient's.
  for (std::size_t i = 0; i < bare.parameters.size(); ++i) {
    ASSERT_NEAR(padded.parameters[i], bare.parameters[i], 1e-3) << i;
  }
}

TEST_P(TrainingStepTest, EachPrecisionHasItsOwnGraph) {
  const auto model = make_model();
  TrainingStep steps(context_, *model, optimizer_, {kSmoothing, kSeed, true});
  const data::Batch batch = draw({5, 7, 10});
  if (!context_.stream().can_capture()) GTEST_SKIP() << "this device has no graphs";
  runtime::Context exact = context_, rounded = context_;
  rounded.set_precision({runtime::DType::kFloat32, true});
  for (std::int64_t step = 1; step <= 3; ++step) steps.run(exact, {&batch, 1}, step, 0);
  EXPECT_EQ(steps.graphs(), 1u);
  for (std::int64_t step = 4; step <= 6; ++step) steps.run(rounded, {&batch, 1}, step, 0);
  EXPECT_EQ(steps.graphs(), 2u);
  context_.synchronize();
}

/// Against the average as its definition has it, in double precision.
TEST_P(TrainingStepTest, AveragesTheWeightsOfAllSteps) {
  optimizer_.ema_decay = 0.7;
  // Most rows of embeddings are then untouched in a step: the averages lie in their gradients.
  source_vocabulary_ = target_vocabulary_ = 700;
  const auto batches = draw({{5, 7, 10}, {16, 8, 12}, {3, 5, 9}, {11, 8, 12}, {1, 6, 11}});
  const auto model = make_model();
  const layers::Parameters& parameters = model->parameters();
  TrainingStep steps(context_, *model, optimizer_, {kSmoothing, kSeed, true});
  std::vector<double> sum(static_cast<std::size_t>(parameters.flat_size()));
  double weight = 0;
  for (std::size_t i = 0; i < batches.size(); ++i) {
    const auto step = static_cast<std::int64_t>(i) + 1;
    steps.run(context_, {&batches[i], 1}, step, 1e-2);
    const std::vector<float> now = get<float>(parameters.values());
    weight = 0.7 * weight + 1;
    for (std::size_t j = 0; j < sum.size(); ++j) sum[j] = 0.7 * sum[j] + double{now[j]};
    {
      const AveragedWeights averaged(context_, parameters, steps.optimizer(), step);
      const std::vector<float> average = get<float>(parameters.values());
      for (std::size_t j = 0; j < sum.size(); ++j) {
        ASSERT_NEAR(average[j], sum[j] / weight, 1e-6 * (1 + std::abs(sum[j]))) << step << " " << j;
      }
      EXPECT_TRUE(step == 1 || average != now) << step;
    }
    EXPECT_EQ(get<float>(parameters.values()), now);
  }
  // It is only looked on: the weights are those of a run without it.
  optimizer_.ema_decay = 0;
  const auto other = make_model();
  TrainingStep plain(context_, *other, optimizer_, {kSmoothing, kSeed, true});
  for (std::size_t i = 0; i < batches.size(); ++i) {
    plain.run(context_, {&batches[i], 1}, static_cast<std::int64_t>(i) + 1, 1e-2);
  }
  EXPECT_FALSE(plain.optimizer().average_sum());
  EXPECT_EQ(get<float>(parameters.values()), get<float>(other->parameters().values()));
}

// Of weights that stay as they are, also where float32 knows little of 1 - decay.
TEST_P(TrainingStepTest, AverageOfTheSameIsTheSame) {
  optimizer_.optimizer = "sgd";
  for (const double decay : {0.5, 0.999, 0.99999}) {
    optimizer_.ema_decay = decay;
    const auto model = make_model();
    const layers::Parameters& parameters = model->parameters();
    TrainingStep steps(context_, *model, optimizer_, {kSmoothing, kSeed, true});
    const data::Batch batch = draw({2, 3, 3});
    for (std::int64_t step = 1; step <= 60; ++step) steps.run(context_, {&batch, 1}, step, 0);
    const std::vector<float> expected = get<float>(parameters.values());
    const AveragedWeights averaged(context_, parameters, steps.optimizer(), 60);
    const std::vector<float> average = get<float>(parameters.values());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      ASSERT_NEAR(average[i], expected[i], 1e-5 * std::abs(expected[i])) << decay << " " << i;
    }
  }
}

/// A loss scale that float32 can't bear falls until it can; the steps before are as if they had
/// never been. Captured steps see it change, for it is data on the device.
TEST_P(TrainingStepTest, LossScalingSkipsWhatOverflows) {
  dropout_ = 0;  // its masks go by the number of the step, which skipped ones raise
  const auto batches = draw({{5, 7, 10}, {16, 8, 12}, {3, 5, 9}, {11, 8, 12}});
  constexpr double kRate = 1e-2;
  const auto expected = make_model();
  TrainingStep plain(context_, *expected, optimizer_, {kSmoothing, kSeed, true});
  std::vector<double> norms;
  for (std::size_t i = 0; i < batches.size(); ++i) {
    const auto step = static_cast<std::int64_t>(i) + 1;
    norms.push_back(
        get_scalar<double>(plain.run(context_, {&batches[i], 1}, step, kRate).gradient_squares));
  }

  const auto model = make_model();
  TrainingStep scaled(context_, *model, optimizer_, {kSmoothing, kSeed, true, true});
  const Tensor loss_scale = scaled.optimizer().loss_scale();
  EXPECT_EQ(get<double>(loss_scale), (std::vector<double>{65536, 0, 0}));
  context_.upload<double>(loss_scale, std::vector<double>{0x1p140, 0, 0});
  const Tensor values = model->parameters().values();
  std::int64_t step = 0;
  int skipped = 0;
  for (std::size_t i = 0; i < batches.size();) {
    const auto before = get<float>(values);
    const StepSums sums = scaled.run(context_, {&batches[i], 1}, ++step, kRate);
    EXPECT_TRUE(std::isfinite(get<double>(sums.loss)[0]));
    const double norm = get_scalar<double>(sums.gradient_squares);
    if (std::isfinite(norm)) {
      EXPECT_EQ(norm, norms[i++]);
    } else {
      ASSERT_LT(++skipped, 40);
      EXPECT_EQ(get<float>(values), before);
    }
    const auto numbers = get<double>(sums.loss_scale);
    EXPECT_EQ(numbers[0], std::ldexp(0x1p140, -skipped));
    EXPECT_EQ(numbers[2], skipped);
  }
  EXPECT_GT(skipped, 2);
  EXPECT_EQ(get<float>(values), get<float>(expected->parameters().values()));
}

TEST_P(TrainingStepTest, LossScaleIsSavedAndTakenBack) {
  const auto model = make_model();
  Optimizer one(context_, model->parameters(), optimizer_, true);
  const std::vector<double> numbers{512, 1999, 7};
  context_.upload<double>(one.loss_scale(), numbers);
  io::Container saved;
  one.save(context_, saved.tensors);
  Optimizer other(context_, model->parameters(), optimizer_, true);
  other.load(context_, saved);
  EXPECT_EQ(get<double>(other.loss_scale()), numbers);
  // Whoever has no use for it passes it over, and who lacks it begins anew.
  Optimizer plain(context_, model->parameters(), optimizer_);
  plain.load(context_, saved);
  io::Container without;
  plain.save(context_, without.tensors);
  Optimizer fresh(context_, model->parameters(), optimizer_, true);
  fresh.load(context_, without);
  EXPECT_EQ(get<double>(fresh.loss_scale()), (std::vector<double>{65536, 0, 0}));
}

INSTANTIATE_TEST_SUITE_P(Devices, TrainingStepTest, testing::devices(), testing::device_name);

}  // namespace
}  // namespace sluice::training
