#include "models/seq2seq_config.h"

#include <gtest/gtest.h>

#include "sluice/error.h"

namespace sluice::models {
namespace {

Seq2SeqConfig sample() {
  Seq2SeqConfig config;
  config.cell = "gru";
  config.source_vocabulary = 11;
  config.target_vocabulary = 13;
  config.attention = "multiplicative";
  config.dropout = 0.25;
  return config;
}

TEST(Seq2SeqConfig, SurvivesJson) {
  const std::string json = sample().to_json();
  EXPECT_EQ(Seq2SeqConfig::from_json(json).to_json(), json);
}

// A model without what came later can be read by programs that don't know it.
TEST(Seq2SeqConfig, WritesLaterKeysWhereTheyAreSet) {
  EXPECT_EQ(sample().to_json().find("encoder_peepholes"), std::string::npos);
  EXPECT_EQ(sample().to_json().find("tie_embeddings"), std::string::npos);
  Seq2SeqConfig config = sample();
  config.cell = "lstm";
  config.encoder_peepholes = true;
  config.encoder_zoneout_c = 0.05;
  config.tie_embeddings = "decoder";
  const Seq2SeqConfig read = Seq2SeqConfig::from_json(config.to_json());
  EXPECT_TRUE(read.encoder_peepholes);
  EXPECT_EQ(read.encoder_zoneout_c, 0.05);
  EXPECT_EQ(read.encoder_zoneout_h, 0);
  EXPECT_EQ(read.tie_embeddings, "decoder");
}

TEST(Seq2SeqConfig, NamesTheKeyThatIsWrong) {
  const auto expect_refused = [](auto change, const std::string& key) {
    Seq2SeqConfig config = sample();
    change(config);
    try {
      config.validate();
      ADD_FAILURE() << "accepted a wrong model." << key;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("model." + key), std::string::npos) << error.what();
    }
  };
  expect_refused([](auto& c) { c.cell = "rnn"; }, "cell");
  expect_refused([](auto& c) { c.attention = "dot"; }, "attention");
  expect_refused([](auto& c) { c.hidden = 0; }, "hidden");
  expect_refused([](auto& c) { c.hidden = 33; }, "hidden");
  expect_refused([](auto& c) { c.encoder_layers = 65; }, "encoder_layers");
  expect_refused([](auto& c) { c.dropout = 1; }, "dropout");
  expect_refused([](auto& c) { c.tie_embeddings = "some"; }, "tie_embeddings");
  expect_refused([](auto& c) { c.tie_embeddings = "all"; }, "tie_embeddings");
  expect_refused([](auto& c) { c.tie_embeddings = "decoder", c.hidden = 2 * c.embedding; },
                 "tie_embeddings");
  expect_refused([](auto& c) { c.encoder_zoneout_h = -0.1; }, "encoder_zoneout_h");
  expect_refused([](auto& c) { c.encoder_peepholes = true; }, "encoder_peepholes");
  expect_refused([](auto& c) { c.encoder_zoneout_c = 0.1; }, "encoder_zoneout_c");
  expect_refused([](auto& c) { c.encoder_layer_norm = true; }, "encoder_layer_norm");
}

TEST(Seq2SeqConfig, RefusesDamagedJson) {
  std::string json = sample().to_json();
  EXPECT_THROW(Seq2SeqConfig::from_json("{"), Error);
  EXPECT_THROW(Seq2SeqConfig::from_json("[]"), Error);
  EXPECT_THROW(Seq2SeqConfig::from_json(R"({"model":"seq2seq"})"), Error);
  json.insert(json.size() - 1, R"(,"colour":"red")");
  EXPECT_THROW(Seq2SeqConfig::from_json(json), Error);
}

}  // namespace
}  // namespace sluice::models
