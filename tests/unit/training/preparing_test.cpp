// What is told of data that are being prepared, and of validations.
#include "training/preparing.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>

#include "training/language_model_data.h"
#include "training/progress.h"
#include "training/seq2seq_data.h"
#include "training/task.h"
#include "training/trainer.h"
#include "unit/support/on_device.h"
#include "unit/support/temporary_folder.h"
#include "unit/training/reversal_task.h"

namespace sluice::training {
namespace {

/// Keeps what a Watch was told: shares of each kind of work, in order.
struct Told {
  base::Watch watch() {
    return [this](std::string_view what, double done) {
      if (shares.empty() || shares.back().first != what) shares.emplace_back(what, Shares{});
      shares.back().second.push_back(done);
    };
  }
  std::vector<std::string> works() const {
    std::vector<std::string> names;
    for (const auto& [what, unused] : shares) names.push_back(what);
    return names;
  }

  using Shares = std::vector<double>;
  std::vector<std::pair<std::string, Shares>> shares;
};

void expect_rising_to_one(const Told::Shares& shares) {
  ASSERT_GE(shares.size(), 3u);
  EXPECT_EQ(shares.front(), 0);
  for (std::size_t i = 1; i < shares.size(); ++i) EXPECT_GT(shares[i], shares[i - 1]) << i;
  EXPECT_GT(shares.back(), 0.99);
  EXPECT_LE(shares.back(), 1);
}

TrainConfig words_config() {
  TrainConfig config;
  config.tokenizer.kind = "words";
  return config;
}

TextData pairs(int count) {
  TextData text;
  for (int i = 0; i < count; ++i) text.train.push_back({"a b", "b a"});
  return text;
}

TEST(Preparing, TellsOfLargeVocabulariesAndOfIds) {
  Told told;
  make_seq2seq_data(words_config(), pairs(12345), nullptr, told.watch());
  EXPECT_EQ(told.works(),
            (std::vector<std::string>{"making the source vocabulary of 12345 texts (words)",
                                      "making the target vocabulary of 12345 texts (words)",
                                      "token ids of the training examples"}));
  expect_rising_to_one(told.shares.back().second);
  EXPECT_LT(told.shares.back().second.size(), 1100u);

  TrainConfig shared = words_config();
  shared.tokenizer.shared = true;
  Told once;
  make_seq2seq_data(shared, pairs(12345), nullptr, once.watch());
  EXPECT_EQ(once.works().front(), "making the shared vocabulary of 24690 texts (words)");

  Told little;
  make_seq2seq_data(words_config(), pairs(100), nullptr, little.watch());
  EXPECT_EQ(little.works(), std::vector<std::string>{"token ids of the training examples"});
}

TEST(Preparing, TellsOfLargeFiles) {
  const testing::TemporaryFolder folder;
  TrainConfig config = words_config();
  config.model.kind = "language_model";
  config.data.text = folder / "small";
  std::ofstream(config.data.text) << "a\n";
  Told small, large;
  find_task("language_model")->read_data(config, nullptr, small.watch());
  EXPECT_EQ(small.works(), std::vector<std::string>{"token ids of the training texts"});

  config.data.text = folder / "none";
  Told none;
  EXPECT_THROW(find_task("language_model")->read_data(config, nullptr, none.watch()), Error);
  EXPECT_TRUE(none.works().empty());

  config.data.text = folder / "large";
  std::ofstream(config.data.text) << std::string(5 << 20, 'a') << "\nb\n";
  find_task("language_model")->read_data(config, nullptr, large.watch());
  EXPECT_EQ(large.works(), (std::vector<std::string>{"reading '" + config.data.text + "'",
                                                     "token ids of the training texts"}));
}

class ValidationProgress : public testing::OnDevice {};

// Each batch, and each answer that is searched for.
TEST_P(ValidationProgress, IsTold) {
  const testing::TemporaryFolder folder;
  TrainConfig config = reversal_config(folder / "run");
  config.loop.keep_best = "exact_match";
  config.loop.max_steps = 2;
  std::ostringstream shown;
  Progress progress(shown, {.line_seconds = 0}, [] { return 0.0; });
  TrainHooks hooks;
  hooks.progress = &progress;
  Trainer(context_, config, reversal_data(config), Start::kFresh).run(hooks);
  const std::string text = shown.str();
  const std::size_t answering = text.find("answering   0%\n");
  EXPECT_LT(text.find("validating   0%\n"), text.find("validating 100%\n")) << text;
  EXPECT_LT(text.find("validating 100%\n"), answering) << text;
  EXPECT_LT(answering, text.find("answering 100%\n")) << text;
  EXPECT_LT(text.find("answering 100%\n"), text.find("step 2: validation loss")) << text;
}

INSTANTIATE_TEST_SUITE_P(Devices, ValidationProgress, testing::devices(), testing::device_name);

}  // namespace
}  // namespace sluice::training
