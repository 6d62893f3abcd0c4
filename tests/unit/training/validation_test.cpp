#include "training/validation.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "metrics/bleu.h"
#include "metrics/chrf.h"
#include "models/seq2seq.h"
#include "training/greedy_answers.h"
#include "unit/support/on_device.h"
#include "unit/support/temporary_folder.h"
#include "unit/training/reversal_task.h"

namespace sluice::training {
namespace {

/// Runs that keep the best model by any of the metrics.
class ValidationTest : public testing::OnDevice {
 protected:
  TrainConfig config_by(std::string_view metric, std::string_view output) const {
    TrainConfig config = reversal_config(folder / std::string(output));
    config.model.hidden = 24;
    config.learning_rate.learning_rate = 2e-2;
    config.loop.keep_best = metric;
    config.loop.bleu_tokenizer = "char";
    config.loop.checkpoint_every = 0;
    config.loop.validate_every = 15;
    config.loop.max_steps = 105;
    return config;
  }
  TrainResult train(const TrainConfig& config) {
    reports.clear();
    TrainHooks hooks;
    hooks.on_validation = [&](const ValidationReport& report) { reports.push_back(report); };
    return Trainer(context_, config, reversal_data(config), Start::kResume).run(hooks);
  }

  testing::TemporaryFolder folder;
  std::vector<ValidationReport> reports;
};

std::string bytes_below(const std::filesystem::path& directory) {
  std::string bytes;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    std::ifstream file(entry.path(), std::ios::binary);
    bytes.append(std::istreambuf_iterator<char>(file), {});
  }
  return bytes;
}

TEST_P(ValidationTest, KeepsTheBestByEachMetric) {
  for (const ValidationMetric& metric : find_task("seq2seq")->metrics()) {
    SCOPED_TRACE(metric.key);
    const TrainConfig config = config_by(metric.key, metric.key);
    const TrainResult result = train(config);
    ASSERT_EQ(reports.size(), 7u);
    double best = 0;
    std::int64_t best_step = 0, improvements = 0;
    for (const ValidationReport& report : reports) {
      const bool searched = metric.source == ValidationMetric::Source::kSearch;
      ASSERT_EQ(report.value("bleu").has_value(), searched);
      ASSERT_TRUE(report.value(metric.key).has_value());
      const double value = *report.value(metric.key);
      const bool improved =
          best_step == 0 || (metric.higher_is_better ? value > best : value < best);
      EXPECT_EQ(report.improved, improved) << "step " << report.step << ": " << value;
      if (!improved) continue;
      best = value;
      best_step = report.step;
      ++improvements;
    }
    EXPECT_GT(improvements, 1);  // the task is learnt, so the number does move
    EXPECT_EQ(result.best.step, best_step);
    EXPECT_EQ(metric.minimised(result.best.value), best);
    const std::string tag = "validation/" + std::string(metric.key);
    EXPECT_NE(bytes_below(folder / std::string(metric.key) / "tensorboard").find(tag),
              std::string::npos);
  }
}

TEST_P(ValidationTest, ScoresTheTextOfTheBestModelsAnswers) {
  const TrainConfig config = config_by("bleu", "run");
  const TrainResult result = train(config);
  const Seq2SeqData data = reversal_pairs(config);
  const LoadedModel best = model_files::load_model(context_, folder / "run" / "best");
  const auto answers = greedy_answers(context_, dynamic_cast<const models::Seq2Seq&>(*best.model),
                                      data.validation.source);
  ASSERT_TRUE(answers.has_value());
  metrics::Bleu bleu(metrics::BleuTokenizer::kChar);
  metrics::Chrf chrf;
  for (std::size_t i = 0; i < answers->size(); ++i) {
    const std::string text = best.tokenizers.target->decode((*answers)[i]);
    bleu.add(text, data.references[i]);
    chrf.add(text, data.references[i]);
  }
  EXPECT_GT(bleu.score().score, 0);
  EXPECT_EQ(bleu.score().score, -result.best.value);
  for (const ValidationReport& report : reports) {
    if (report.step != result.best.step) continue;
    EXPECT_EQ(report.value("chrf"), chrf.score());
  }
}

TEST_P(ValidationTest, StopsEarlyByWhatDoesNotRise) {
  TrainConfig config = config_by("chrf", "run");
  config.learning_rate.learning_rate = 0;
  config.loop.validate_every = 2;
  config.loop.patience = 2;
  const TrainResult result = train(config);
  EXPECT_EQ(result.outcome, TrainOutcome::kEarlyStopped);
  EXPECT_EQ(result.step, 6);
  EXPECT_EQ(result.best.step, 2);
}

TEST_P(ValidationTest, ResumesExactly) {
  TrainConfig config = config_by("bleu", "whole");
  config.loop.max_steps = 60;
  train(config);
  const Outcome whole = outcome_of(folder / "whole");
  config.output.directory = (folder / "cut").native();
  config.loop.max_steps = 40;
  train(config);
  config.loop.max_steps = 60;
  train(config);
  EXPECT_EQ(outcome_of(folder / "cut"), whole);
}

INSTANTIATE_TEST_SUITE_P(Devices, ValidationTest, testing::devices(), testing::device_name);

TEST(Validation, ReferencesAreTheTextOfWhatIsKept) {
  TrainConfig config = reversal_config("unused");
  config.data.max_target_tokens = 3;
  TextData text = reversal_text();
  text.validation = {{"12", "21"}, {"1234", "4321"}, {"", "5"}, {"3", "3"}, {"5432", "2345"}};
  const Seq2SeqData data = make_seq2seq_data(config, text);
  EXPECT_EQ(data.references, (std::vector<std::string>{"21", "3"}));
  EXPECT_EQ(data.validation.size(), 2);
  EXPECT_EQ(data.validation_report.left_out, (std::vector<std::int64_t>{1, 2, 4}));
}

TEST(Validation, OfAnswersNeedsTheirText) {
  const TrainConfig config = reversal_config("unused");
  Seq2SeqData pairs = reversal_pairs(config);
  pairs.references.clear();
  const TrainData data = to_train_data(config, pairs);
  const Validation by_loss(data, {}, task_of(config), "loss");
  const Error error = testing::error_of([&] { Validation(data, {}, task_of(config), "chrf"); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_NE(
      std::string(error.what()).find("validation by chrF scores answers, but the 48 examples"),
      std::string::npos)
      << error.what();
}

}  // namespace
}  // namespace sluice::training
