#include "training/folds.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "sluice/error.h"
#include "unit/support/temporary_folder.h"

namespace sluice::training {
namespace {

using sluice::testing::error_of;

TEST(Folds, EachHoldsOutAnotherPart) {
  TrainConfig config;
  config.output.directory = "runs/cv";
  const TrainConfig first = fold_config(config, 5, 1);
  EXPECT_EQ(first.data.hold_out_run, 1);
  EXPECT_EQ(first.data.hold_out_every, 5);
  EXPECT_EQ(first.data.hold_out_fold, 1);
  EXPECT_EQ(first.output.directory, "runs/cv/fold-1");
  config.data.hold_out_run = 7;
  config.data.hold_out_every = 20;
  const TrainConfig last = fold_config(config, 5, 5);
  EXPECT_EQ(last.data.hold_out_run, 7);
  EXPECT_EQ(last.data.hold_out_every, 5);
  EXPECT_EQ(last.data.hold_out_fold, 5);
}

TEST(Folds, RefusesWhatCannotBe) {
  TrainConfig config;
  for (const std::int64_t folds : {-3, 0, 1, 1001}) {
    const Error error = error_of([&] { fold_config(config, folds, 1); });
    EXPECT_NE(std::string(error.what()).find("needs 2 to"), std::string::npos) << error.what();
  }
  config.data.validation_target = "valid.txt";
  const Error error = error_of([&] { fold_config(config, 2, 1); });
  EXPECT_NE(std::string(error.what()).find("data.validation_target is \"valid.txt\""),
            std::string::npos)
      << error.what();
}

// 2, 4, 9: mean 5, squares 9 + 1 + 16 = 26, over K - 1 = 2.
TEST(Folds, HaveMeanAndSampleDeviation) {
  const std::vector<FoldResult> folds{{10, 1, 5, 2.0}, {11, 1, 6, 4.0}, {12, 1, 7, 9.0}};
  const FoldSummary summary = summarize(kLossMetric, folds);
  EXPECT_DOUBLE_EQ(summary.mean, 5);
  EXPECT_DOUBLE_EQ(summary.deviation, std::sqrt(13.0));
  EXPECT_EQ(table(summary),
            "fold                     steps   best step             loss\n"
            "1                           10           5           2.0000\n"
            "2                           11           6           4.0000\n"
            "3                           12           7           9.0000\n"
            "mean                                                 5.0000\n"
            "standard deviation                                   3.6056\n");
  ValidationMetric longest = kLossMetric;
  longest.name = "bits per token";
  FoldSummary wide = summary;
  wide.metric = &longest;
  EXPECT_TRUE(
      table(wide).starts_with("fold                     steps   best step   bits per token\n"));
  const auto json = nlohmann::json::parse(to_json(summary));
  EXPECT_EQ(json["metric"], "loss");
  EXPECT_EQ(json["higher_is_better"], false);
  EXPECT_EQ(json["standard_deviation"].get<double>(), summary.deviation);
  ASSERT_EQ(json["folds"].size(), 3u);
  EXPECT_EQ(json["folds"][2]["fold"], 3);
  EXPECT_EQ(json["folds"][2]["directory"], "fold-3");
  EXPECT_EQ(json["folds"][2]["best_step"], 7);
  EXPECT_EQ(json["folds"][2]["value"], 9.0);
  EXPECT_THROW(summarize(kLossMetric, {folds[0]}), Error);
}

}  // namespace
}  // namespace sluice::training
