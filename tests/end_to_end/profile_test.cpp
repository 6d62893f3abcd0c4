#include <nlohmann/json.hpp>
#include <set>

#include "end_to_end/workplace.h"

namespace sluice::end_to_end {
namespace {

/// Names of the spans in a trace.
std::multiset<std::string> names_of(const std::string& trace) {
  std::multiset<std::string> names;
  const auto parsed = nlohmann::json::parse(trace);
  for (const auto& event : parsed["traceEvents"]) {
    if (event["ph"] == "X") names.insert(event["name"].get<std::string>());
  }
  return names;
}

bool has_line(const std::string& text, const std::string& begin) {
  for (const std::string& line : split(text, '\n')) {
    if (line.starts_with(begin)) return true;
  }
  return false;
}

TEST(Profile, OfTrainingTellsWhereAStepsTimeGoes) {
  const Workplace place;
  const Outcome outcome =
      place.sluice({"train", "task.toml", "--breakdown", "--trace", "run.json", "--trace-steps",
                    "3:5", "--set", "model.encoder_layers=2", "--set", "model.dropout=0.1"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  for (const char* line : {"Where the time went, steps 3 to 5 on cpu: ", "encoder.l0 forward ",
                           "encoder.l1 backward ", "decoder forward ", "output backward ", "loss ",
                           "optimizer step ", "source_embedding forward ", "dropout ",
                           "data next batch ", "not attributed ", "in all ", "trace: run.json, "}) {
    EXPECT_TRUE(has_line(outcome.err, line)) << line << '\n' << outcome.err;
  }
  const auto names = names_of(place.read("run.json"));
  EXPECT_EQ(names.count("step 2"), 0U);
  for (const char* step : {"step 3", "step 4", "step 5"}) EXPECT_EQ(names.count(step), 1U);
  EXPECT_EQ(names.count("step 6"), 0U);
  EXPECT_EQ(names.count("encoder.l1 forward"), 3U);

  // What is watched computes the same.
  const std::string weights = place.read("run/last/model.safetensors");
  std::filesystem::remove_all(place / "run");
  place.train({"model.encoder_layers=2", "model.dropout=0.1"});
  EXPECT_EQ(place.read("run/last/model.safetensors"), weights);
}

TEST(Profile, OfDecodingLeavesTheAnswersAlone) {
  const Workplace place;
  place.train();
  const Outcome plain =
      place.sluice({"decode", "run/best", "--batch", "2"}, {.input = "a b\nc\nd\n"});
  const Outcome outcome =
      place.sluice({"decode", "run/best", "--batch", "2", "--breakdown", "--trace", "decode.json"},
                   {.input = "a b\nc\nd\n"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, plain.out);
  for (const char* line : {"Where the time went, batches 1 to 2 on cpu: ", "decoder step ",
                           "beam_search select ", "output forward "}) {
    EXPECT_TRUE(has_line(outcome.err, line)) << line << '\n' << outcome.err;
  }
  EXPECT_EQ(names_of(place.read("decode.json")).count("batch 2"), 1U);
}

TEST(Profile, OfABenchHasEachImplementation) {
  const Workplace place;
  place.write("tiny.shapes", "tiny time=3 batch=2 input=5 hidden=8 pass=forward layers=2\n");
  const Outcome outcome =
      place.sluice({"bench", "lstm", "--shapes", "tiny.shapes", "--impl", "portable", "--repeats",
                    "1", "--breakdown", "--trace", "bench.json", "--trace-steps", "2:2"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(has_line(outcome.err, "Where the time went, tiny forward portable turn 2 on cpu: "))
      << outcome.err;
  const auto names = names_of(place.read("bench.json"));
  EXPECT_EQ(names.count("tiny forward portable turn 2"), 1U);
  EXPECT_EQ(names.count("lstm.l1 forward"), 1U);
}

TEST(Profile, RefusesBeforeTheWork) {
  const Workplace place;
  const auto refuse = [&](std::vector<std::string> options, const std::vector<std::string>& said) {
    std::vector<std::string> arguments = train_arguments({});
    arguments.insert(arguments.end(), options.begin(), options.end());
    place.expect_error(arguments, said);
  };
  for (const char* steps : {"5", "5:4", "0:4", "a:b", "1:2:3", "-1:4"}) {
    refuse({"--breakdown", std::string("--trace-steps=") + steps}, {"--trace-steps", "A:B"});
  }
  refuse({"--trace-steps", "1:2"}, {"neither a trace nor a breakdown"});
  refuse({"--trace", "nowhere/run.json"}, {"nowhere/run.json", "there is no folder 'nowhere'"});
  EXPECT_FALSE(std::filesystem::exists(place / "run"));
  place.train();
  refuse({"--breakdown", "--trace-steps", "1:2"}, {"steps 1:2", "goes on after step"});
}

TEST(Profile, SaysWhenARunEndsTooEarly) {
  const Workplace place;
  const Outcome outcome = place.sluice(
      {"train", "task.toml", "--quiet", "--trace", "run.json", "--trace-steps", "9000:9001"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.err,
            "nothing was recorded: the run ended before step 9000, the first of "
            "9000:9001\n");
  EXPECT_FALSE(std::filesystem::exists(place / "run.json"));
}

}  // namespace
}  // namespace sluice::end_to_end
