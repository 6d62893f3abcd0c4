// Runs of language models: what they read, and that a run of running text which is stopped and
// goes on ends with the bits of one that was not.
#include <gtest/gtest.h>

#include <cmath>

#include "training/checkpoint.h"
#include "training/language_model_data.h"
#include "training/trainer.h"
#include "unit/support/on_device.h"
#include "unit/support/temporary_folder.h"
#include "unit/training/reversal_task.h"

namespace sluice::training {
namespace {

using sluice::testing::error_of;

// A text in which what comes next depends on what came some lines before: counting in digits.
LanguageModelText counting() {
  LanguageModelText text;
  for (int i = 0; i < 90; ++i) {
    (i < 70 ? text.train : text.validation).push_back(i % 7 == 3 ? "" : std::to_string(7 * i));
  }
  return text;
}

TrainConfig config_of(const std::filesystem::path& output, std::int64_t bptt) {
  TrainConfig config;
  config.model.kind = "language_model";
  config.tokenizer.kind = "characters";
  config.model.embedding = 8;
  config.model.hidden = 12;
  config.model.layers = 2;
  config.model.dropout = 0.1;
  config.learning_rate.learning_rate = 1e-2;
  config.loop.bptt = bptt;
  config.loop.max_tokens = 64;
  config.loop.max_rows = 5;
  config.loop.max_epochs = 0;
  config.loop.max_steps = 23;
  config.loop.validate_every = 4;
  config.loop.checkpoint_every = 1;
  config.output.directory = output.native();
  config.threads = 1;
  return config;
}

TrainResult train(const Context& context, const TrainConfig& config, Start start) {
  config.validate();
  return Trainer(context, config, make_language_model_data(config, counting()), start).run();
}

class LanguageModelRun : public testing::OnDevice {
 protected:
  // Stopped after these steps and resumed.
  void expect_resumes(TrainConfig config, const std::filesystem::path& folder) {
    config.output.directory = folder / "whole";
    train(context_, config, Start::kFresh);
    const std::int64_t steps = config.loop.max_steps;
    config.output.directory = folder / "cut";
    for (const std::int64_t last : {1, 3, 4, 9, 10, 11, 17}) {
      config.loop.max_steps = last;
      train(context_, config, Start::kResume);
    }
    config.loop.max_steps = steps;
    train(context_, config, Start::kResume);
    const Outcome cut = outcome_of(folder / "cut", false);
    EXPECT_EQ(cut, outcome_of(folder / "whole", false));
    const bool carries = config.loop.bptt > 0;
    for (const char* name : {"states.h", "states.c"}) {
      const auto& names = cut.tensor_names;
      const auto found = std::find(names.begin(), names.end(), name);
      EXPECT_EQ(found != names.end(), carries) << name;
      if (!carries) continue;
      const auto& bytes = cut.tensors[static_cast<std::size_t>(found - names.begin())];
      EXPECT_TRUE(std::any_of(bytes.begin(), bytes.end(),
                              [](std::byte byte) { return byte != std::byte{}; }));
    }
  }
};

TEST_P(LanguageModelRun, ResumesWithCarriedStates) {
  const testing::TemporaryFolder folder;
  expect_resumes(config_of("", 7), folder.path());
}

TEST_P(LanguageModelRun, ResumesWithCarriedStatesOfItsOwnPredictions) {
  const testing::TemporaryFolder folder;
  TrainConfig config = config_of("", 7);
  config.sampling = {"linear", 20, 0.9, true};
  expect_resumes(config, folder.path());
}

TEST_P(LanguageModelRun, ResumesCapturedStepsOfSeveralBatches) {
  const testing::TemporaryFolder folder;
  TrainConfig config = config_of("", 6);
  config.static_shapes = "on";
  config.loop.accumulate = 2;
  expect_resumes(config, folder.path());
}

TEST_P(LanguageModelRun, ResumesTextsByThemselves) {
  const testing::TemporaryFolder folder;
  expect_resumes(config_of("", 0), folder.path());
}

// Padding to a plan's capacity, capturing and replaying change no bit of what is carried.
TEST_P(LanguageModelRun, PaddingChangesNothing) {
  const testing::TemporaryFolder folder;
  TrainConfig config = config_of(folder / "padded", 6);
  config.static_shapes = "on";
  const TrainResult padded = train(context_, config, Start::kFresh);
  config.static_shapes = "off";
  config.output.directory = folder / "plain";
  const TrainResult plain = train(context_, config, Start::kFresh);
  // Sums over more rows may round otherwise on a GPU.
  EXPECT_NEAR(padded.best.value, plain.best.value, 1e-4 * plain.best.value);
}

// Validation carries states, too: what it measures is the text in one piece, whatever training is
// at.
TEST_P(LanguageModelRun, ValidatesRunningText) {
  const testing::TemporaryFolder folder;
  TrainConfig config = config_of(folder.path() / "run", 5);
  config.loop.max_rows = 1;  // one stretch, so how it is cut into batches changes nothing
  train(context_, config, Start::kFresh);
  const LoadedModel loaded = model_files::load_model(context_, folder.path() / "run" / "best");
  const auto loss_with = [&](std::int64_t bptt) {
    TrainConfig cut = config;
    cut.loop.bptt = bptt;
    cut.loop.max_tokens = 100000;
    const TrainData data = make_language_model_data(cut, counting());
    task_of(loaded).prepare_training(context_, cut, data, *loaded.model);
    model_files::PlanCache plans(*loaded.model);
    const Validation validation(data, {}, task_of(loaded), "loss");
    return validation.run(context_, *loaded.model, plans, 1, nullptr)->loss;
  };
  const double whole = loss_with(100000);
  EXPECT_NEAR(loss_with(5), whole, 1e-5 * whole);
  EXPECT_NEAR(loss_with(1), whole, 1e-5 * whole);
}

INSTANTIATE_TEST_SUITE_P(Devices, LanguageModelRun, testing::devices(), testing::device_name);

TEST(LanguageModelData, KeepsEmptyLinesOfRunningTextOnly) {
  const TrainData lines = make_language_model_data(config_of("x", 0), counting());
  const TrainData running = make_language_model_data(config_of("x", 6), counting());
  EXPECT_EQ(lines.train->size(), 60);
  EXPECT_EQ(lines.validation->size(), 17);
  EXPECT_NE(lines.notes[0].find("60 texts"), std::string::npos) << lines.notes[0];
  EXPECT_NE(lines.notes[0].find("10 empty"), std::string::npos) << lines.notes[0];
  EXPECT_NE(running.notes[0].find("70 texts"), std::string::npos) << running.notes[0];
  EXPECT_EQ(running.train->rows_in_order(), 5);
}

TEST(LanguageModelData, StretchesKeepToBothLimits) {
  TrainConfig config = config_of("x", 16);
  EXPECT_EQ(stretches_of(config), 4);  // 64 tokens
  config.loop.max_rows = 3;
  EXPECT_EQ(stretches_of(config), 3);
  config.loop.bptt = 65;
  const Error error = error_of([&] { config.validate(); });
  EXPECT_NE(std::string(error.what()).find("training.bptt"), std::string::npos) << error.what();
}

TEST(LanguageModelData, NamesFileAndLineOfWhatIsNoSmiles) {
  const testing::TemporaryFolder folder;
  TrainConfig config = config_of("x", 0);
  config.tokenizer.kind = "smiles";
  config.data.text = (folder.path() / "mols.smi").native();
  {
    std::ofstream file(config.data.text);
    file << "CCO\nc1ccccc1\nC C\n";
  }
  const Error error = error_of([&] { read_language_model_text(config); });
  const std::string what = error.what();
  EXPECT_NE(what.find("mols.smi', line 3,"), std::string::npos) << what;
  EXPECT_NE(what.find("byte offset 1"), std::string::npos) << what;
}

TEST(LanguageModelData, RefusesWhatCannotBe) {
  TrainConfig config = config_of("x", 0);
  const auto message = [&] {
    return std::string(error_of([&] { read_language_model_text(config); }).what());
  };
  EXPECT_NE(message().find("set data.text"), std::string::npos);
  config.data.max_target_tokens = 1;
  LanguageModelText text;
  text.train = {"123", "45"};
  const Error error = error_of([&] { make_language_model_data(config, text); });
  EXPECT_NE(std::string(error.what()).find("2 have more than data.max_target_tokens = 1"),
            std::string::npos)
      << error.what();
}

}  // namespace
}  // namespace sluice::training
