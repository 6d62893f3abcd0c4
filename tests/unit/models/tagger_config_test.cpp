#include "models/tagger_config.h"

#include <gtest/gtest.h>

#include "sluice/error.h"

namespace sluice::models {
namespace {

TaggerConfig sample() {
  TaggerConfig config;
  config.vocabulary = 11;
  config.labels = 5;
  config.dropout = 0.25;
  config.zoneout_c = 0.125;
  return config;
}

TEST(TaggerConfig, SurvivesJson) {
  const std::string json = sample().to_json();
  const TaggerConfig read = TaggerConfig::from_json(json);
  EXPECT_EQ(read.to_json(), json);
  EXPECT_EQ(read.labels, 5);
  EXPECT_EQ(read.zoneout_c, 0.125);
  // Earlier versions know neither key, so a model that has no use for them has none.
  EXPECT_EQ(json.find("widths"), std::string::npos);
  EXPECT_EQ(json.find("hard_sigmoid"), std::string::npos);
  TaggerConfig uneven = sample();
  uneven.layers = 2;
  uneven.widths = {12, 8};
  uneven.hard_sigmoid = true;
  const TaggerConfig again = TaggerConfig::from_json(uneven.to_json());
  EXPECT_EQ(again.widths, uneven.widths);
  EXPECT_TRUE(again.hard_sigmoid);
}

TEST(TaggerConfig, NamesTheKeyThatIsWrong) {
  const auto expect_refused = [](auto change, const std::string& key) {
    TaggerConfig config = sample();
    change(config);
    try {
      config.validate();
      ADD_FAILURE() << "accepted a wrong model." << key;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("model." + key), std::string::npos) << error.what();
    }
  };
  expect_refused([](auto& c) { c.vocabulary = 0; }, "vocabulary");
  expect_refused([](auto& c) { c.labels = 0; }, "labels");
  expect_refused([](auto& c) { c.labels = 1025; }, "labels");
  expect_refused([](auto& c) { c.hidden = 33; }, "hidden");
  expect_refused([](auto& c) { c.layers = 65; }, "layers");
  expect_refused([](auto& c) { c.widths = {8, 8}; }, "widths");
  expect_refused([](auto& c) { c.widths = {7}; }, "widths");
  expect_refused([](auto& c) { c.zoneout_c = 0, c.cell = "rnn_relu", c.hard_sigmoid = true; },
                 "hard_sigmoid");
  expect_refused([](auto& c) { c.output = "hmm"; }, "output");
  expect_refused([](auto& c) { c.dropout = 1; }, "dropout");
  expect_refused([](auto& c) { c.recurrent_dropout = -0.1; }, "recurrent_dropout");
  expect_refused([](auto& c) { c.cell = "gru"; }, "zoneout_c");
  expect_refused([](auto& c) { c.cell = "gru", c.peepholes = true; }, "peepholes");
  expect_refused([](auto& c) { c.peepholes = c.layer_norm = true; }, "layer_norm");
  TaggerConfig one_way = sample();
  one_way.hidden = 33;
  one_way.bidirectional = false;
  EXPECT_NO_THROW(one_way.validate());
}

TEST(TaggerConfig, RefusesDamagedJson) {
  std::string json = sample().to_json();
  EXPECT_THROW(TaggerConfig::from_json("{"), Error);
  EXPECT_THROW(TaggerConfig::from_json("[]"), Error);
  EXPECT_THROW(TaggerConfig::from_json(R"({"model":"tagger"})"), Error);
  EXPECT_THROW(TaggerConfig::from_json(R"({"model":"seq2seq"})"), Error);
  json.insert(json.size() - 1, R"(,"colour":"red")");
  EXPECT_THROW(TaggerConfig::from_json(json), Error);
}

}  // namespace
}  // namespace sluice::models
