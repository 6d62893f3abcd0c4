// Whole runs of the trainer equal those of torch: the order of batches, warm-up and schedules,
// decay, clipping, and when to validate (tests/peers/trainer_losses.py writes the goldens).
#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "data/corpus.h"
#include "data/word_tokenizer.h"
#include "training/trainer.h"
#include "unit/support/on_device.h"
#include "unit/support/source_path.h"
#include "unit/support/temporary_folder.h"

namespace sluice::training {
namespace {

using Json = nlohmann::json;

Json read_goldens() {
  std::ifstream file(testing::source_path("tests/peers/goldens/trainer_losses.json"));
  return Json::parse(file);
}

TrainConfig config_of(const Json& golden, const std::filesystem::path& output) {
  TrainConfig config;
  config.output.directory = output.native();
  for (const char* section : {"model", "training"}) {
    for (const auto& [key, value] : golden.at(section).items()) {
      const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
      apply_override(config, fmt::format("{}.{}={}", section, key, text));
    }
  }
  return config;
}

// Any tokenizer of so many ids: only its size matters.
std::shared_ptr<const data::Tokenizer> tokenizer_of(int size) {
  std::vector<std::string> words;
  for (int id = data::kFirstPieceId; id < size; ++id) words.push_back(fmt::format("word{}", id));
  return data::train_word_tokenizer(words);
}

data::PairCorpus corpus_of(const Json& examples) {
  data::PairCorpus corpus;
  for (const Json& example : examples) {
    corpus.source.push_back(example.at(0));
    corpus.target.push_back(example.at(1));
  }
  return corpus;
}

TrainData data_of(const Json& goldens) {
  TrainData data;
  data.tokenizers.source = tokenizer_of(goldens.at("vocabularies").at(0));
  data.tokenizers.target = tokenizer_of(goldens.at("vocabularies").at(1));
  data.train = std::make_shared<data::PairCorpus>(corpus_of(goldens.at("train")));
  data.validation = std::make_shared<data::PairCorpus>(corpus_of(goldens.at("valid")));
  return data;
}

// float32 on both sides. Over 82 steps the roundings of sums in another order have grown to less
// than 1e-6 of a loss; 1e-5 leaves room for other machines' orders. One batch in another place, or
// one step at another rate, makes 1e-3.
constexpr double kTolerance = 1e-5;

void expect_close(double value, double expected, const std::string& what) {
  ASSERT_LE(std::abs(value / expected - 1), kTolerance)
      << what << ": " << value << ", in torch " << expected;
}

using TorchRuns = sluice::testing::OnDevice;

TEST_P(TorchRuns, AreTheSame) {
  const Json goldens = read_goldens();
  for (const Json& golden : goldens.at("cases")) {
    SCOPED_TRACE(golden.at("name").get<std::string>());
    const sluice::testing::TemporaryFolder folder;
    std::vector<StepReport> steps;
    std::vector<ValidationReport> validations;
    TrainHooks hooks;
    hooks.on_step = [&](const StepReport& report) { steps.push_back(report); };
    hooks.on_validation = [&](const ValidationReport& report) { validations.push_back(report); };
    Trainer(context_, config_of(golden, folder / "run"), data_of(goldens), Start::kFresh)
        .run(hooks);

    const Json& losses = golden.at("losses");
    ASSERT_EQ(steps.size(), losses.size());
    for (std::size_t i = 0; i < steps.size(); ++i) {
      ASSERT_NO_FATAL_FAILURE(
          expect_close(steps[i].loss, losses[i], fmt::format("loss of step {}", i + 1)));
    }
    const Json& expected = golden.at("validations");
    ASSERT_EQ(validations.size(), expected.size());
    for (std::size_t i = 0; i < validations.size(); ++i) {
      const ValidationReport& report = validations[i];
      ASSERT_EQ(report.step, expected[i].at(0));
      ASSERT_NO_FATAL_FAILURE(
          expect_close(report.loss, expected[i].at(1), fmt::format("validation {}", i + 1)));
      ASSERT_NO_FATAL_FAILURE(
          expect_close(steps[static_cast<std::size_t>(report.step) - 1].learning_rate,
                       expected[i].at(2), fmt::format("learning rate of step {}", report.step)));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, TorchRuns, testing::devices(), sluice::testing::device_name);

}  // namespace
}  // namespace sluice::training
