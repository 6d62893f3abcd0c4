#include "training/train_config.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "sluice/error.h"
#include "training/config_keys.h"
#include "training/key_limits.h"
#include "training/task.h"
#include "unit/support/source_path.h"
#include "unit/support/temporary_folder.h"
#include "unit/training/config_errors.h"

namespace sluice::training {
namespace {

std::string parse_error(std::string_view toml, ErrorCode code = ErrorCode::kInvalidArgument) {
  return error_of(code, [&] { parse_train_config(toml, "a.toml"); });
}

TEST(TrainConfig, ReadsEveryType) {
  const TrainConfig config = parse_train_config(
      "[data]\nsource = 'a.en'\n[model]\nbidirectional = false\n[training]\nmax_tokens = 2_048\n"
      "learning_rate = 5e-4\nclip_norm = 1 # a whole number will do\n",
      "a.toml");
  EXPECT_EQ(config.data.source, "a.en");
  EXPECT_FALSE(config.model.bidirectional);
  EXPECT_EQ(config.loop.max_tokens, 2048);
  EXPECT_EQ(config.learning_rate.learning_rate, 5e-4);
  EXPECT_EQ(config.optimizer.clip_norm, 1.0);
  EXPECT_EQ(config.model.hidden, TrainConfig().model.hidden);
}

TEST(TrainConfig, TheExamplesAreValid) {
  int count = 0;
  const auto folder = testing::source_path("examples");
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".toml") continue;
    const TrainConfig config = read_train_config(entry.path());
    EXPECT_NO_THROW(config.validate()) << entry.path();
    EXPECT_NE(config.output.directory, TrainConfig().output.directory) << entry.path();
    ++count;
  }
  EXPECT_GE(count, 3);
}

TEST(TrainConfig, UnknownKeysNameFileLineAndNearestKey) {
  const std::string key = parse_error("[training]\nseed = 1\n\nlearning_rat = 0.1\n");
  expect_contains(key, "'a.toml', line 4");
  expect_contains(key, "'training.learning_rat'; did you mean 'training.learning_rate'?");
  expect_contains(parse_error("[trainng]\nseed = 1\n"), "[trainng]; did you mean 'training'?");
  expect_contains(parse_error("seed = 1\n"), "did you mean 'training.seed'?");
  expect_contains(parse_error("[model]\nseed = 1\n"), "did you mean 'training.seed'?");
}

TEST(TrainConfig, WrongTypesSayWhatIsExpected) {
  expect_contains(parse_error("[training]\n\nmax_tokens = 'many'\n"),
                  "'a.toml', line 3: training.max_tokens must be of type integer, such as 4096");
  expect_contains(parse_error("[training]\nmax_tokens = 1.5\n"), "integer");
  expect_contains(parse_error("[training]\nlearning_rate = true\n"), "number");
  expect_contains(parse_error("[model]\nbidirectional = 1\n"), "boolean");
  expect_contains(parse_error("[data]\nsource = 1\n"), "string");
  expect_contains(parse_error("[training]\nseed = = 1\n", ErrorCode::kFormat), "line 2");
}

TEST(TrainConfig, ReadsFilesAndMissesThem) {
  const testing::TemporaryFolder folder;
  const auto path = folder.path() / "run.toml";
  error_of(ErrorCode::kNotFound, [&] { read_train_config(path); });
  std::ofstream(path) << "[training]\nseed = 7\n";
  EXPECT_EQ(read_train_config(path).loop.seed, 7);
}

TEST(TrainConfig, ExamplesAreValid) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(testing::source_path("examples"))) {
    if (entry.path().extension() != ".toml") continue;
    SCOPED_TRACE(entry.path());
    read_train_config(entry.path()).validate();
    ++files;
  }
  EXPECT_GT(files, 0);
}

TEST(TrainConfig, OverridesOneKey) {
  TrainConfig config;
  apply_override(config, "training.learning_rate=0.25");
  apply_override(config, "training.seed=-3");
  apply_override(config, "tokenizer.shared=true");
  apply_override(config, "data.tsv=a=b c.tsv");
  EXPECT_EQ(config.learning_rate.learning_rate, 0.25);
  EXPECT_EQ(config.loop.seed, -3);
  EXPECT_TRUE(config.tokenizer.shared);
  EXPECT_EQ(config.data.tsv, "a=b c.tsv");
  const auto override_error = [&](std::string_view text) {
    return error_of(ErrorCode::kInvalidArgument, [&] { apply_override(config, text); });
  };
  expect_contains(override_error("training.sed=1"), "did you mean 'training.seed'?");
  expect_contains(override_error("colour=1"), "unknown key 'colour' in 'colour=1'; sluice train");
  expect_contains(override_error("training.seed=1x"), "training.seed must be of type integer");
  expect_contains(override_error("training.seed"), "sets nothing");
  expect_contains(override_error("tokenizer.shared=yes"), "boolean");
}

TEST(TrainConfig, KindsThatUseAKey) {
  EXPECT_TRUE(kinds_using("training.seed").empty());
  EXPECT_EQ(kinds_using("data.conll"), std::vector<std::string_view>{"tagger"});
  EXPECT_GT(kinds_using("model.embedding").size(), 2U);
}

// A value that no default equals, so that a key written or read under another's name shows.
std::string odd_value(const ConfigKey& key, std::size_t index) {
  if (key.type() == "string")
    return "\"it\\\"s\\\\ \\u0001 \xC3\xA9 " + std::to_string(index) + '"';
  if (key.type() == "integer") return std::to_string(1000003 + index);
  if (key.type() == "number") return "0.1" + std::to_string(index) + "3e-7";
  return key.value_of(TrainConfig()) == "true" ? "false" : "true";
}

TEST(TrainConfig, EveryKeyIsWrittenAndReadBack) {
  std::string toml;
  std::size_t index = 0;
  for (const ConfigKey& key : config_keys()) {
    toml += std::string(key.name) + " = " + odd_value(key, index++) + "\n";
  }
  const TrainConfig config = parse_train_config(toml, "a.toml");
  const TrainConfig again = parse_train_config(to_toml(config), "b.toml");
  for (const ConfigKey& key : config_keys()) {
    EXPECT_EQ(key.value_of(again), key.value_of(config)) << key.name;
    EXPECT_NE(key.value_of(again), key.value_of(TrainConfig())) << key.name;
    expect_contains(config_reference(), std::string(key.help));
  }
  EXPECT_EQ(to_toml(parse_train_config(config_reference(), "c.toml")), to_toml(TrainConfig()));
}

TEST(TrainConfig, TellsWhichKeysChanged) {
  TrainConfig saved;
  TrainConfig now;
  now.loop.seed = 2;
  now.loop.max_epochs = 99;
  now.threads = 3;
  EXPECT_EQ(changed_keys(saved, now, ResumeRule::kMustMatch),
            std::vector<std::string>{"training.seed (1, now 2)"});
  EXPECT_EQ(changed_keys(saved, now, ResumeRule::kMayMatter),
            std::vector<std::string>{"machine.threads (0, now 3)"});
}

// Of a kind that knows two keys, beside another that knows a third one.
TEST(TrainConfig, TellsWhichKeysAKindHasNoUseFor) {
  constexpr std::string_view used[] = {"model.hidden", "data.tsv"};
  constexpr std::string_view known[] = {"model.hidden", "data.tsv", "model.attention",
                                        "model.decoder_layers"};
  TrainConfig config;
  config.model.hidden = 12;
  config.data.tsv = "a.tsv";
  config.loop.seed = 4;  // of every kind
  EXPECT_TRUE(useless_keys(config, used, known).empty());
  config.model.decoder_layers = 2;
  config.model.attention = "multiplicative";
  EXPECT_EQ(useless_keys(config, used, known),
            (std::vector<std::string_view>{"model.decoder_layers", "model.attention"}));
}

TEST(TrainConfig, NamesTheKeysOfAnEncoderAndDecoder) {
  TrainConfig config;
  config.data.tsv = "a.tsv";
  config.model.layers = 2;
  const auto refused = [&] {
    return error_of(ErrorCode::kInvalidArgument, [&] { config.validate(); });
  };
  EXPECT_EQ(refused(),
            "model.kind is 'seq2seq', which has no use for model.layers; leave it out: this kind "
            "has model.encoder_layers and model.decoder_layers instead");
  config.model.layers = 1;
  config.model.zoneout_h = 0.1;
  expect_contains(refused(), "leave it out: this kind has model.encoder_zoneout_h instead");
}

// A model that can be trained can be opened, and the other way round.
TEST(TrainConfig, EveryKindOfModelHasATask) {
  std::vector<std::string_view> trained, opened;
  for (const Task* task : tasks()) trained.push_back(task->kind());
  for (const model_files::ModelKind& kind : model_files::model_kinds()) opened.push_back(kind.name);
  EXPECT_EQ(trained, opened);
}

// A key that no kind names would be refused by none.
TEST(TrainConfig, EveryKeyOfAKindIsOne) {
  for (const Task* task : tasks()) {
    for (const std::string_view name : task->keys()) EXPECT_NE(find_key(name), nullptr) << name;
    EXPECT_EQ(find_task(task->kind()), task);
    EXPECT_NE(task->find_metric("loss"), nullptr);
    EXPECT_EQ(task->find_metric("no metric"), nullptr);
  }
  for (const ConfigKey& key : config_keys()) {
    const bool of_kinds =
        key.section() == "data" || key.section() == "tokenizer" || key.section() == "model";
    if (!of_kinds || key.name == "model.kind") continue;
    const auto uses = [&](const Task* task) {
      return std::count(task->keys().begin(), task->keys().end(), key.name) == 1;
    };
    EXPECT_TRUE(std::any_of(tasks().begin(), tasks().end(), uses)) << key.name;
  }
}

}  // namespace
}  // namespace sluice::training
