#include "training/trainer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <sstream>

#include "io/checkpoint.h"
#include "models/seq2seq.h"
#include "training/greedy_answers.h"
#include "unit/support/full_disk.h"
#include "unit/support/on_device.h"
#include "unit/support/temporary_folder.h"
#include "unit/training/reversal_task.h"

namespace sluice::training {
namespace {

class TrainerTest : public testing::OnDevice {
 protected:
  /// Few checkpoints: their writing takes most of a small run's time.
  TrainConfig small_config() const {
    TrainConfig config = reversal_config(output());
    config.loop.checkpoint_every = 0;
    config.loop.validate_every = 6;
    config.loop.max_steps = 12;
    return config;
  }
  TrainResult train(const TrainConfig& config, const TrainHooks& hooks = {}) {
    return Trainer(context_, config, reversal_data(config), Start::kResume).run(hooks);
  }
  std::filesystem::path output() const { return folder / "run"; }

  testing::TemporaryFolder folder;
};

TEST_P(TrainerTest, LearnsToReverseAndKeepsTheBest) {
  TrainConfig config = reversal_config(output());
  config.model.hidden = 32;
  config.model.embedding = 16;
  config.model.dropout = 0;
  config.learning_rate.learning_rate = 2e-2;
  config.learning_rate.plateau_patience = 3;
  config.loop.label_smoothing = 0;
  config.loop.max_steps = 400;
  config.loop.validate_every = 50;
  config.loop.checkpoint_every = 0;
  config.loop.keep_best = "exact_match";
  std::ostringstream shown;
  Progress progress(shown, {}, [] { return 0.0; });
  double last_loss = 0;
  std::int64_t steps_told = 0;
  std::vector<ValidationReport> validations;
  TrainHooks hooks;
  hooks.progress = &progress;
  hooks.on_step = [&](const StepReport& report) {
    EXPECT_EQ(report.step, ++steps_told);
    last_loss = report.loss;
  };
  hooks.on_validation = [&](const ValidationReport& report) { validations.push_back(report); };
  Trainer trainer(context_, config, reversal_data(config), Start::kFresh);
  const TrainResult result = trainer.run(hooks);

  EXPECT_EQ(result.outcome, TrainOutcome::kFinished);
  EXPECT_EQ(steps_told, 400);
  EXPECT_LT(last_loss, 0.05);
  ASSERT_EQ(validations.size(), 8u);
  EXPECT_LT(validations.back().perplexity, 1.2);
  EXPECT_GE(-result.best.value, 0.9);
  EXPECT_NE(shown.str().find("step 400: validation loss"), std::string::npos) << shown.str();
  EXPECT_NE(shown.str().find("exact match"), std::string::npos);

  // What is kept as best is the model that was measured.
  const LoadedModel best = model_files::load_model(context_, output() / "best");
  const data::PairCorpus validation = reversal_pairs(config).validation;
  const auto answers = greedy_answers(context_, dynamic_cast<const models::Seq2Seq&>(*best.model),
                                      validation.source);
  ASSERT_TRUE(answers.has_value());
  const std::int64_t right = std::inner_product(
      answers->begin(), answers->end(), validation.target.begin(), std::int64_t{0}, std::plus<>(),
      [](const auto& answer, const auto& target) { return answer == target ? 1 : 0; });
  EXPECT_EQ(static_cast<double>(right) / static_cast<double>(validation.size()),
            -result.best.value);
  EXPECT_EQ(best.tokenizers.source->encode("15"), trainer.data().tokenizers.source->encode("15"));
  EXPECT_TRUE(std::filesystem::is_directory(output() / "tensorboard"));
}

TEST_P(TrainerTest, StopsEarlyWhenValidationStalls) {
  TrainConfig config = reversal_config(output());
  config.learning_rate.learning_rate = 0;  // nothing ever improves on the first validation
  config.loop.patience = 2;
  config.loop.validate_every = 4;
  config.loop.max_steps = 1000;
  const TrainResult result = train(config);
  EXPECT_EQ(result.outcome, TrainOutcome::kEarlyStopped);
  EXPECT_EQ(result.step, 12);
  EXPECT_EQ(result.best.step, 4);
  // Resumed, it stays stopped.
  EXPECT_EQ(train(config).step, 12);
}

TEST_P(TrainerTest, ValidatesAtTheEndOfEpochsAndOfTheRun) {
  TrainConfig config = reversal_config(output());
  config.loop.validate_every = 0;
  config.loop.checkpoint_every = 0;
  config.loop.max_steps = 0;
  config.loop.max_epochs = 2;
  config.learning_rate.schedule = "inverse_sqrt";
  config.optimizer.optimizer = "sgd";
  config.optimizer.momentum = 0.9;
  std::vector<std::int64_t> steps;
  TrainHooks hooks;
  hooks.on_validation = [&](const ValidationReport& report) { steps.push_back(report.step); };
  const TrainResult result = train(config, hooks);
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(steps[1], result.step);

  config.loop.max_epochs = 0;
  config.loop.max_steps = result.step + 1;  // in the midst of the third epoch
  train(config, hooks);
  ASSERT_EQ(steps.size(), 3u);
  EXPECT_EQ(steps[2], result.step + 1);
}

TEST_P(TrainerTest, AddsUpBatchesButNotOfTwoEpochs) {
  TrainConfig config = small_config();
  config.loop.validate_every = 0;
  config.loop.max_steps = 0;
  config.loop.max_epochs = 2;
  const auto tokens_of_steps = [&](std::int64_t accumulate) {
    config.loop.accumulate = accumulate;
    config.output.directory = folder / std::to_string(accumulate);
    std::vector<std::vector<std::int64_t>> tokens(2);
    TrainHooks hooks;
    hooks.on_step = [&](const StepReport& report) {
      EXPECT_GT(report.source_tokens, 0);
      tokens[static_cast<std::size_t>(report.epoch - 1)].push_back(report.target_tokens);
    };
    train(config, hooks);
    return tokens;
  };
  const auto alone = tokens_of_steps(1), added = tokens_of_steps(4);
  for (const std::size_t epoch : {0, 1}) {
    std::vector<std::int64_t> expected;
    for (std::size_t batch = 0; batch < alone[epoch].size(); ++batch) {
      if (batch % 4 == 0) expected.push_back(0);
      expected.back() += alone[epoch][batch];
    }
    EXPECT_NE(alone[epoch].size() % 4, 0u) << "no step is cut short";
    EXPECT_EQ(added[epoch], expected);
  }
}

TEST_P(TrainerTest, ValidatesAndKeepsAveragedWeights) {
  TrainConfig config = small_config();
  config.learning_rate.schedule = "constant";
  config.optimizer.ema_decay = 0.5;
  config.loop.validate_every = 4;
  std::vector<std::vector<float>> weights;
  for (config.loop.max_steps = 1; config.loop.max_steps <= 4; ++config.loop.max_steps) {
    std::filesystem::remove_all(output() / "best");
    ValidationReport report;
    TrainHooks hooks;
    hooks.on_validation = [&](const ValidationReport& told) { report = told; };
    train(config, hooks);
    const LoadedModel last = model_files::load_model(context_, output() / "last");
    weights.push_back(get<float>(last.model->parameters().values()));
    if (config.loop.max_steps < 4) continue;
    ASSERT_TRUE(report.improved);
    const LoadedModel best = model_files::load_model(context_, output() / "best");
    const std::vector<float> average = get<float>(best.model->parameters().values());
    for (std::size_t i = 0; i < average.size(); ++i) {
      const double expected =
          (1.0 * weights[0][i] + 2.0 * weights[1][i] + 4.0 * weights[2][i] + 8.0 * weights[3][i]) /
          15;
      ASSERT_NEAR(average[i], expected, 1e-6) << i;
    }
    EXPECT_NE(average, weights[3]);
    // What was measured is what is kept, and not what goes on.
    const TrainData data = reversal_data(config);
    const auto loss_of = [&](const models::Model& model) {
      model_files::PlanCache plans(model);
      return Validation(data, {config.loop.max_tokens, config.loop.max_rows, 64}, task_of(config),
                        "loss")
          .run(context_, model, plans, 4, nullptr)
          ->loss;
    };
    EXPECT_DOUBLE_EQ(loss_of(*best.model), report.loss);
    EXPECT_NE(loss_of(*last.model), report.loss);
  }
}

TEST_P(TrainerTest, ANaNStopsTheRunAndSparesTheCheckpoint) {
  TrainConfig config = small_config();
  config.loop.max_steps = 6;
  train(config);
  const Outcome before = outcome_of(output());
  config.loop.max_steps = 20;
  Trainer trainer(context_, config, reversal_data(config), Start::kResume);
  layers::Parameters& parameters = trainer.model().parameters();
  const layers::ParameterId last = parameters.specs().size() - 1;
  std::vector<float> values = parameters.download<float>(context_, last);
  values[0] = std::numeric_limits<float>::quiet_NaN();
  parameters.upload<float>(context_, last, values);
  const Error error = testing::error_of([&] { trainer.run(); });
  EXPECT_EQ(error.code(), ErrorCode::kNumeric);
  EXPECT_NE(std::string(error.what()).find("at step 7: loss nan"), std::string::npos)
      << error.what();
  EXPECT_EQ(outcome_of(output()), before);
}

// Finite, but hopeless: the checkpoint from before stays, and is as good as it was.
TEST_P(TrainerTest, ALossFarAboveAGuessStopsTheRunAndSparesTheCheckpoint) {
  TrainConfig config = small_config();
  config.loop.max_steps = 6;
  double validated = 0;
  TrainHooks hooks;
  hooks.on_validation = [&](const ValidationReport& report) { validated = report.loss; };
  train(config, hooks);
  const Outcome before = outcome_of(output());
  config.loop.max_steps = 20;
  Trainer trainer(context_, config, reversal_data(config), Start::kResume);
  const layers::Parameters& parameters = trainer.model().parameters();
  for (layers::ParameterId id = 0; id < parameters.specs().size(); ++id) {
    std::vector<float> values = parameters.download<float>(context_, id);
    for (float& value : values) value *= 1e8F;
    parameters.upload<float>(context_, id, values);
  }
  const Error error = testing::error_of([&] { trainer.run(); });
  EXPECT_EQ(error.code(), ErrorCode::kNumeric);
  EXPECT_NE(std::string(error.what()).find("at step 7: loss "), std::string::npos) << error.what();
  EXPECT_NE(std::string(error.what()).find("(it may be "), std::string::npos) << error.what();
  EXPECT_EQ(outcome_of(output()), before);

  const LoadedModel last = model_files::load_model(context_, output() / "last");
  const TrainData data = reversal_data(config);
  const Validation validation(data, {config.loop.max_tokens, 64, 1}, task_of(last), "loss");
  model_files::PlanCache plans(*last.model);
  const auto report = validation.run(context_, *last.model, plans, 6, nullptr);
  ASSERT_TRUE(report);
  EXPECT_NEAR(report->loss, validated, 1e-4);
}

// A step's own loss is that of the weights before it, so the checkpoint written right after it
// would be the first to hold what it made of them.
TEST_P(TrainerTest, AStepThatDivergesIsNotSaved) {
  TrainConfig config = small_config();
  config.loop.max_steps = 6;
  train(config);
  const std::filesystem::path good = output() / "best";
  config.initial.from = good.native();
  config.output.directory = (folder / "other").native();
  config.optimizer.optimizer = "sgd";
  config.optimizer.clip_norm = 0;
  config.learning_rate.warmup_steps = 0;
  config.learning_rate.learning_rate = 1e9;
  for (const bool by_limit : {false, true}) {
    config.loop.checkpoint_every = by_limit ? 0 : 1;
    config.loop.max_steps = by_limit ? 1 : 20;
    std::vector<double> losses;
    TrainHooks hooks;
    hooks.on_step = [&](const StepReport& report) { losses.push_back(report.nll); };
    const Error error = testing::error_of([&] { train(config, hooks); });
    EXPECT_EQ(error.code(), ErrorCode::kNumeric);
    EXPECT_NE(std::string(error.what()).find("diverged at step 1: the loss after it is "),
              std::string::npos)
        << error.what();
    ASSERT_EQ(losses.size(), 1u);
    EXPECT_LT(losses[0], 10);
    // What the run started from is in its place.
    const io::Container last = io::read_model(folder / "other" / "last");
    const io::Container start = io::read_model(good);
    for (const auto& [name, tensor] : start.tensors) {
      EXPECT_EQ(last.tensors.find(name)->data, tensor.data) << name;
    }
  }
}

TEST_P(TrainerTest, TrainsTiedEmbeddingsAndResumesExactly) {
  TrainConfig config = small_config();
  config.tokenizer.shared = true;
  config.model.embedding = config.model.hidden;
  config.model.tie_embeddings = "all";
  config.initial.source_embeddings = folder
                                         .write(
                                             "vectors", "3 " +
                                                            [] {
                                                              std::string ones;
                                                              for (int i = 0; i < 16; ++i)
                                                                ones += " 1";
                                                              return ones;
                                                            }())
                                         .native();
  std::vector<StepReport> reports;
  TrainHooks hooks;
  hooks.on_step = [&](const StepReport& report) { reports.push_back(report); };
  train(config, hooks);
  EXPECT_LT(reports.back().loss, reports.front().loss);
  const Outcome whole = outcome_of(output());
  EXPECT_EQ(run_config(model_files::load_model(context_, output() / "last")).model.tie_embeddings,
            "all");

  config.output.directory = folder / "cut";
  config.loop.max_steps = 6;
  train(config);
  config.loop.max_steps = 12;
  train(config);
  EXPECT_EQ(outcome_of(folder / "cut"), whole);
}

TEST_P(TrainerTest, TrainsInFloat16AndResumesExactly) {
  TrainConfig config = small_config();
  config.device = GetParam();
  config.precision = "float16";
  context_.set_precision(runtime::Precision::parse(config.precision));
  if (device_->runs_host_kernels()) {
    const Error error = testing::error_of([&] { train(config); });
    EXPECT_NE(std::string(error.what()).find("float16"), std::string::npos) << error.what();
    GTEST_SKIP() << "float16 trains on a GPU";
  }
  std::vector<StepReport> reports;
  TrainHooks hooks;
  hooks.on_step = [&](const StepReport& report) { reports.push_back(report); };
  train(config, hooks);
  ASSERT_EQ(reports.size(), 12u);
  EXPECT_GT(reports.back().loss_scale, 0);
  EXPECT_LT(reports.back().loss, reports.front().loss);
  const Outcome whole = outcome_of(output());

  config.output.directory = folder / "cut";
  config.loop.max_steps = 6;
  train(config);
  config.loop.max_steps = 12;
  train(config);
  EXPECT_EQ(outcome_of(folder / "cut"), whole);
  EXPECT_NE(std::find(whole.tensor_names.begin(), whole.tensor_names.end(), "optimizer.loss_scale"),
            whole.tensor_names.end());
}

TEST_P(TrainerTest, AFullDiskSparesTheCheckpoint) {
  TrainConfig config = small_config();
  config.loop.max_steps = 6;
  train(config);
  const Outcome before = outcome_of(output());
  config.loop.max_steps = 20;
  {
    Trainer trainer(context_, config, reversal_data(config), Start::kResume);
    const testing::FileSizeLimit full(10'000);
    const Error error = testing::error_of([&] { trainer.run(); });
    EXPECT_EQ(error.code(), ErrorCode::kIo);
    EXPECT_NE(std::string(error.what()).find("model.safetensors"), std::string::npos)
        << error.what();
  }
  EXPECT_EQ(outcome_of(output()), before);
  EXPECT_EQ(train(config).step, 20);
}

TEST_P(TrainerTest, AFullDiskForMetricsDoesNotStopTraining) {
  TrainConfig config = small_config();
  std::filesystem::create_directories(output());
  std::ofstream(output() / "tensorboard") << "in the way";
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(train(config).step, config.loop.max_steps);
  const std::string warning = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(warning.find("no metrics for TensorBoard"), std::string::npos) << warning;
}

TEST_P(TrainerTest, RefusesToResumeAnotherRun) {
  TrainConfig config = small_config();
  config.loop.max_steps = 2;
  train(config);
  const auto refusal = [&](const TrainConfig& other, std::uint64_t data_seed, Start start) {
    const Error error = testing::error_of(
        [&] { Trainer(context_, other, reversal_data(other, data_seed), start); });
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return std::string(error.what());
  };
  EXPECT_NE(refusal(config, 1, Start::kFresh).find("holds a checkpoint"), std::string::npos);
  EXPECT_NE(refusal(config, 2, Start::kResume).find("other training examples"), std::string::npos);
  TrainConfig other = config;
  other.model.hidden = 18;
  other.optimizer.beta1 = 0.8;
  other.loop.max_steps = 50;
  const std::string named = refusal(other, 1, Start::kResume);
  EXPECT_NE(named.find("model.hidden (16, now 18), training.beta1 (0.9, now 0.8);"),
            std::string::npos)
      << named;

  config.threads = 2;
  std::vector<std::string> warnings;
  const WarningHandler handler = [&](std::string_view said) { warnings.emplace_back(said); };
  context_.set_warnings(&handler);
  Trainer(context_, config, reversal_data(config), Start::kResume);
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_NE(warnings[0].find("saved with 1 thread on"), std::string::npos) << warnings[0];
}

TEST_P(TrainerTest, NeedsExamplesForWhatValidationDecides) {
  const auto refusal = [&](const TrainConfig& config) {
    TextData text = reversal_text();
    text.validation.clear();
    const Error error = testing::error_of(
        [&] { Trainer(context_, config, make_train_data(config, text), Start::kFresh); });
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return std::string(error.what());
  };
  TrainConfig config = small_config();
  EXPECT_NE(refusal(config).find("training.schedule is plateau"), std::string::npos);
  config.loop.patience = 3;
  EXPECT_NE(refusal(config).find("training.patience is 3"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Devices, TrainerTest, testing::devices(), testing::device_name);

}  // namespace
}  // namespace sluice::training
