#include <signal.h>

#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <regex>
#include <thread>

#include "end_to_end/workplace.h"

namespace sluice::end_to_end {
namespace {

using Json = nlohmann::json;

std::vector<std::string> cross_validation(const std::string& folds,
                                          std::vector<std::string> overrides = {}) {
  overrides.insert(overrides.begin(), {"data.validation_tsv=", "data.hold_out_run=10"});
  std::vector<std::string> arguments = train_arguments(overrides);
  arguments.insert(arguments.end(), {"--folds", folds});
  return arguments;
}

void expect_same_models(const Workplace& place, const Workplace& other, int folds) {
  for (int fold = 1; fold <= folds; ++fold) {
    for (const char* name : {"/last/model.safetensors", "/best/model.safetensors"}) {
      const std::string path = "run/fold-" + std::to_string(fold) + name;
      EXPECT_TRUE(place.read(path) == other.read(path)) << path << " differs";
    }
  }
}

TEST(Folds, TrainEachOnTheOthersAndSummarize) {
  const Workplace place;
  const Outcome outcome = place.sluice(cross_validation("3", {"training.keep_best=accuracy"}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("finished 3 folds"), std::string::npos) << outcome.out;
  const Json json = Json::parse(place.read("run/folds.json"));
  EXPECT_EQ(json["metric"], "accuracy");
  ASSERT_EQ(json["folds"].size(), 3u);
  double sum = 0, squares = 0;
  for (const Json& fold : json["folds"]) {
    sum += fold["value"].get<double>();
    squares += std::pow(fold["value"].get<double>(), 2);
    const std::string best = "run/" + fold["directory"].get<std::string>() + "/best";
    EXPECT_EQ(place.sluice({"decode", best, "--max-length", "9"}, {.input = "a b c\n"}).code, 0);
  }
  const double mean = sum / 3;
  EXPECT_GT(mean, 0);
  EXPECT_NEAR(json["mean"].get<double>(), mean, 1e-12);
  EXPECT_NEAR(json["standard_deviation"].get<double>(), std::sqrt((squares - 3 * mean * mean) / 2),
              1e-9);
  EXPECT_TRUE(std::regex_search(outcome.out, std::regex("\nmean +[0-9.]+%\nstandard deviation +"
                                                        "[0-9.]+%\n")))
      << outcome.out;
}

// The second fold is what the keys that --folds sets give alone.
TEST(Folds, AreRunsLikeAnyOther) {
  const Workplace place;
  ASSERT_EQ(place.sluice(cross_validation("3")).code, 0);
  const Json json = Json::parse(place.read("run/folds.json"));
  const Outcome alone = place.sluice(
      train_arguments({"data.validation_tsv=", "data.hold_out_run=10", "data.hold_out_every=3",
                       "data.hold_out_fold=2", "output.directory=alone"}));
  ASSERT_EQ(alone.code, 0) << alone.err;
  std::smatch best;
  ASSERT_TRUE(std::regex_search(alone.out, best, std::regex("; best loss ([0-9.]+)")));
  EXPECT_NEAR(json["folds"][1]["value"].get<double>(), std::stod(best[1]), 0.0000501);
  EXPECT_NE(json["folds"][0]["value"], json["folds"][1]["value"]);
}

// One label of three has a single example, which one of the folds holds out.
TEST(Folds, TakeALabelThatOnlyOneOfThemHas) {
  const Workplace place;
  std::string table = "text,label\n";
  for (int i = 0; i < 12; ++i) {
    table += i == 6 ? "a seldom bird,rare\n" : i % 2 == 0 ? "a cat,feline\n" : "a dog,canine\n";
  }
  place.write("table.csv", table);
  place.write("task.toml", R"([data]
table = "table.csv"
[tokenizer]
kind = "words"
[model]
kind = "classifier"
embedding = 4
hidden = 4
[training]
max_epochs = 1
class_weights = "balanced"
[output]
directory = "run"
)");
  const Outcome folds = place.sluice({"train", "task.toml", "--folds", "3"});
  ASSERT_EQ(folds.code, 0) << folds.err;
  for (const char* fold : {"1", "2", "3"}) {
    const Outcome answer =
        place.sluice({"classify", std::string("run/fold-") + fold + "/last", "--format", "json"},
                     {.input = "a cat\n"});
    EXPECT_EQ(Json::parse(answer.out)["probabilities"].size(), 3u) << answer.out << answer.err;
  }
  const Outcome held_out =
      place.sluice({"train", "task.toml", "--set", "data.hold_out_run=1", "--set",
                    "data.hold_out_every=7", "--set", "output.directory=held"});
  EXPECT_EQ(held_out.code, 0) << held_out.err;
}

TEST(Folds, GoOnWhereTheyWereStopped) {
  const Workplace whole, place;
  const std::vector<std::string> command =
      cross_validation("3", {"training.max_epochs=20", "training.checkpoint_every=2"});
  ASSERT_EQ(whole.sluice(command).code, 0);
  {
    Running running(place.path(), command);
    std::error_code none_yet;
    while (!std::filesystem::exists(place / "run/fold-2/last", none_yet)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    running.send(SIGTERM);
    const Outcome outcome = running.wait();
    ASSERT_EQ(outcome.code, 0) << outcome.err << " signal " << outcome.signal;
    EXPECT_NE(outcome.out.find("stopped in fold 2 of 3"), std::string::npos) << outcome.out;
  }
  EXPECT_FALSE(std::filesystem::exists(place / "run/fold-3"));
  EXPECT_FALSE(std::filesystem::exists(place / "run/folds.json"));
  const auto written = std::filesystem::last_write_time(place / "run/fold-1/last");
  const Outcome outcome = place.sluice(command);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(std::filesystem::last_write_time(place / "run/fold-1/last"), written);
  expect_same_models(place, whole, 3);
  EXPECT_EQ(place.read("run/folds.json"), whole.read("run/folds.json"));
  // All is finished: the same answer once more.
  EXPECT_EQ(place.sluice(command).code, 0);
  EXPECT_EQ(place.read("run/folds.json"), whole.read("run/folds.json"));
}

TEST(Folds, RefusesWhatCannotBe) {
  const Workplace place;
  place.expect_error(cross_validation("1"), {"--folds is 1;", "needs 2 to 1000 folds"});
  place.expect_error(cross_validation("31"),
                     {"300 examples make 30 runs of 10", "one of every 31"});
  place.expect_error(cross_validation("3", {"data.validation_tsv=valid.tsv"}),
                     {"data.validation_tsv is \"valid.tsv\"", "leave data.validation_tsv out"});
  std::vector<std::string> profiled = cross_validation("3");
  profiled.insert(profiled.end(), {"--trace", "trace.json"});
  place.expect_error(profiled, {"into one profile"});
  EXPECT_FALSE(std::filesystem::exists(place / "run"));

  place.train({"training.max_steps=2"});
  place.expect_error(cross_validation("3"), {"'run' holds the checkpoint of a single run"});
  ASSERT_EQ(place.sluice(cross_validation("2", {"output.directory=cv"})).code, 0);
  std::vector<std::string> fresh = cross_validation("2", {"output.directory=cv"});
  fresh.emplace_back("--fresh");
  place.expect_error(fresh, {"'cv/fold-1/last' is a checkpoint"});
  place.expect_error(cross_validation("3", {"output.directory=cv"}),
                     {"'cv/fold-1' was started with other"});
  place.expect_train_error({"output.directory=cv"}, {"'cv' holds the folds of a cross-validation"});
}

}  // namespace
}  // namespace sluice::end_to_end
