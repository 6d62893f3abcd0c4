#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "models/classifier_config.h"
#include "models/features_config.h"
#include "sluice/error.h"

namespace sluice::models {
namespace {

TEST(StackModelConfigs, AreReadAsWritten) {
  ClassifierConfig classifier;
  classifier.vocabulary = 100;
  classifier.classes = 3;
  classifier.stack.projections = {64};
  classifier.stack.zoneout_c = 0.25;
  classifier.pooling = "max";
  EXPECT_EQ(ClassifierConfig::from_json(classifier.to_json()).to_json(), classifier.to_json());
  FeaturesConfig features;
  features.features = 13;
  features.outputs = 2;
  features.target = "classes";
  features.normalize = false;
  EXPECT_EQ(FeaturesConfig::from_json(features.to_json()).to_json(), features.to_json());
  // Earlier versions know neither key, so a model that has no use for them has none.
  EXPECT_EQ(features.to_json().find("widths"), std::string::npos);
  EXPECT_EQ(features.to_json().find("hard_sigmoid"), std::string::npos);
  features.stack.layers = 2;
  features.stack.widths = {12, 8};
  features.stack.hard_sigmoid = true;
  const FeaturesConfig uneven = FeaturesConfig::from_json(features.to_json());
  EXPECT_EQ(uneven.stack.widths, (std::vector<std::int64_t>{12, 8}));
  EXPECT_TRUE(uneven.stack.hard_sigmoid);
  EXPECT_EQ(uneven.to_json(), features.to_json());
  EXPECT_THROW(FeaturesConfig::from_json(classifier.to_json()), Error);
  EXPECT_THROW(ClassifierConfig::from_json("{\"model\":\"classifier\"}"), Error);
  EXPECT_THROW(ClassifierConfig::from_json("{"), Error);
  std::string unknown = features.to_json();
  unknown.insert(unknown.size() - 1, ",\"colour\":1");
  EXPECT_THROW(FeaturesConfig::from_json(unknown), Error);
}

TEST(StackModelConfigs, RefuseWhatMakesNoSense) {
  const auto refused = [](auto&& change, const std::string& key) {
    FeaturesConfig config;
    config.features = 4;
    config.outputs = 3;
    config.validate();
    change(config);
    try {
      config.validate();
      ADD_FAILURE() << key << " is taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      EXPECT_NE(std::string(error.what()).find(key), std::string::npos) << error.what();
    }
  };
  refused([](FeaturesConfig& c) { c.features = 0; }, "model.features");
  refused([](FeaturesConfig& c) { c.target = "text"; }, "model.target");
  refused([](FeaturesConfig& c) { c.pooling = "median"; }, "median");
  refused([](FeaturesConfig& c) { c.output_layer = false; }, "model.output_layer");
  refused([](FeaturesConfig& c) { c.stack.cell = "elman"; }, "elman");
  refused([](FeaturesConfig& c) { c.stack.projections = {4, 4}; }, "model.projections");
  refused([](FeaturesConfig& c) { c.stack.dropout = 1; }, "model.dropout");
  refused([](FeaturesConfig& c) { c.stack.widths = {4, 4}; }, "model.widths");
  refused([](FeaturesConfig& c) { c.stack.widths = {0}; }, "model.widths");
  refused(
      [](FeaturesConfig& c) {
        c.stack.bidirectional = true;
        c.stack.widths = {7};
      },
      "model.widths");
  refused(
      [](FeaturesConfig& c) {
        c.stack.cell = "rnn_tanh";
        c.stack.hard_sigmoid = true;
      },
      "model.hard_sigmoid");
  refused(
      [](FeaturesConfig& c) {
        c.stack.cell = "gru";
        c.stack.projections = {4};
      },
      "model.projections");
  refused(
      [](FeaturesConfig& c) {
        c.stack.bidirectional = true;
        c.stack.hidden = 7;
      },
      "model.hidden");
  refused(
      [](FeaturesConfig& c) {
        c.stack.layer_norm = true;
        c.stack.projections = {4};
      },
      "model.layer_norm");
}

}  // namespace
}  // namespace sluice::models
