#include "models/language_model_config.h"

#include <gtest/gtest.h>

#include "sluice/error.h"

namespace sluice::models {
namespace {

LanguageModelConfig sample() {
  LanguageModelConfig config;
  config.vocabulary = 11;
  config.layers = 3;
  config.projection = 7;
  config.features = 5;
  config.zoneout_c = 0.05;
  config.peepholes = true;
  return config;
}

TEST(LanguageModelConfig, SurvivesJson) {
  const LanguageModelConfig read = LanguageModelConfig::from_json(sample().to_json());
  EXPECT_EQ(read.to_json(), sample().to_json());
  EXPECT_EQ(read.layers, 3);
  EXPECT_EQ(read.projection, 7);
  EXPECT_EQ(read.features, 5);
  EXPECT_EQ(read.zoneout_c, 0.05);
  EXPECT_TRUE(read.peepholes);
  EXPECT_FALSE(read.hard_sigmoid);
  EXPECT_EQ(sample().to_json().find("hard_sigmoid"), std::string::npos);
  LanguageModelConfig hard = sample();
  hard.hard_sigmoid = true;
  EXPECT_TRUE(LanguageModelConfig::from_json(hard.to_json()).hard_sigmoid);
}

TEST(LanguageModelConfig, NamesTheKeyThatIsWrong) {
  const auto expect_refused = [](auto change, const std::string& key) {
    LanguageModelConfig config = sample();
    change(config);
    try {
      config.validate();
      ADD_FAILURE() << "accepted a wrong model." << key;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(key), std::string::npos) << error.what();
    }
  };
  expect_refused([](auto& c) { c.cell = "elman"; }, "elman");
  expect_refused([](auto& c) { c.vocabulary = 0; }, "model.vocabulary");
  expect_refused([](auto& c) { c.embedding = -1; }, "model.embedding");
  expect_refused([](auto& c) { c.hidden = 0; }, "model.hidden");
  expect_refused([](auto& c) { c.layers = 65; }, "model.layers");
  expect_refused([](auto& c) { c.projection = -1; }, "model.projection");
  expect_refused([](auto& c) { c.features = -1; }, "model.features");
  expect_refused([](auto& c) { c.dropout = 1; }, "model.dropout");
  expect_refused([](auto& c) { c.zoneout_h = 1; }, "model.zoneout_h");
  expect_refused([](auto& c) { c.recurrent_dropout = -0.1; }, "model.recurrent_dropout");
  expect_refused([](auto& c) { c.cell = "gru"; }, "model.projection");
  expect_refused([](auto& c) { c.cell = "gru", c.projection = 0; }, "model.peepholes");
  expect_refused([](auto& c) { c.layer_norm = true; }, "model.layer_norm");
  expect_refused([](auto& c) { c.tie_embeddings = "all"; }, "model.tie_embeddings");
  expect_refused([](auto& c) { c.tie_embeddings = "decoder"; }, "model.tie_embeddings");
  LanguageModelConfig tied = sample();
  tied.tie_embeddings = "decoder";
  tied.embedding = 7;
  EXPECT_NO_THROW(tied.validate());
}

TEST(LanguageModelConfig, RefusesDamagedJson) {
  std::string json = sample().to_json();
  EXPECT_THROW(LanguageModelConfig::from_json("{"), Error);
  EXPECT_THROW(LanguageModelConfig::from_json("[]"), Error);
  EXPECT_THROW(LanguageModelConfig::from_json(R"({"model":"language_model"})"), Error);
  EXPECT_THROW(LanguageModelConfig::from_json(R"({"model":"seq2seq"})"), Error);
  json.insert(json.size() - 1, R"(,"colour":"red")");
  EXPECT_THROW(LanguageModelConfig::from_json(json), Error);
}

}  // namespace
}  // namespace sluice::models
