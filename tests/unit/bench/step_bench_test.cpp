#include "bench/step/step_bench.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "bench/step/streamed_model.h"
#include "bench/turns/turns.h"
#include "io/safetensors.h"
#include "sluice/error.h"
#include "unit/support/on_device.h"
#include "unit/support/temporary_folder.h"

namespace sluice::bench {
namespace {

using nlohmann::json;

TEST(StepBench, TimesCallsOfTheApiBesideLayersAndPeers) {
  const testing::TemporaryFolder folder;
  folder.write("a.shapes",
               "a cell=lstm time=7 batch=1 input=5 hidden=18 layers=2\n"
               "b cell=gru time=7 batch=1 input=5 hidden=18\n"
               "p cell=lstm time=4 batch=1 input=5 hidden=18 projection=6\n"
               "rows time=7 batch=2 input=5 hidden=18\n");
  StepBenchOptions options;
  options.shapes = (folder.path() / "a.shapes").native();
  options.repeats = 1;
  options.calls = 10;
  options.json = (folder.path() / "out.json").native();
  std::ostringstream out;
  const std::vector<BenchResult> results = run_step_bench(options, out);
  EXPECT_NE(out.str().find("# rows: a stream has one row"), std::string::npos) << out.str();
  std::size_t of_api = 0, peers = 0;
  for (const BenchResult& result : results) {
    EXPECT_EQ(result.pass, Pass::kStep);
    EXPECT_GT(result.milliseconds, 0);
    if (result.peer) ++peers;
    if (!result.is_default) continue;
    ++of_api;
    EXPECT_EQ(result.implementation, "feature-model");
    // float32 against float64: sums of two dozen products and a few steps on top.
    EXPECT_LT(*result.error, 1e-5);
    EXPECT_GT(*result.error, 0);
  }
  EXPECT_EQ(of_api, 3U);
  EXPECT_GE(peers, 2U);
  std::ifstream file(options.json);
  EXPECT_EQ(json::parse(file).size(), results.size());
}

TEST(StepBench, RefusesShapesWithoutSingleSteps) {
  for (const auto& [line, said] : std::vector<std::pair<std::string, std::string>>{
           {"a batch=2", "one row"},
           {"a batch=1 directions=2", "backwards"},
           {"a batch=1 dtype=bfloat16", "float32"},
           {"a batch=1 peepholes=on", "without extras"},
           {"a batch=1 lengths=uniform", "no end"}}) {
    const Error error =
        testing::error_of([&] { StreamedModel(parse_shapes(line, "here").front()); });
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_NE(std::string(error.what()).find(said), std::string::npos) << error.what();
  }
}

/// The answers to some commands.
std::vector<json> said(const std::string& commands) {
  std::istringstream in(commands);
  std::stringstream out;
  run_turns(in, out);
  std::vector<json> answers;
  for (std::string line; std::getline(out, line);) answers.push_back(json::parse(line));
  return answers;
}

TEST(Turns, RunWhenTold) {
  const testing::TemporaryFolder folder;
  const std::string file = (folder.path() / "t.safetensors").native();
  const auto answers = said("open " + file +
                            " forward+backward portable,onednn a cell=gru time=3 batch=2 input=5 "
                            "hidden=8\nrun 0 1\nrun 1 2\nrun 2 1\n");
  ASSERT_EQ(answers.size(), 4U);
  const json& rows = answers[0]["rows"];
  ASSERT_EQ(rows.size(), 2U) << answers[0];
  EXPECT_EQ(rows[0]["implementation"], "portable");
  EXPECT_EQ(rows[0]["peer"], false);
  EXPECT_EQ(rows[1]["peer"], true);
  EXPECT_DOUBLE_EQ(rows[0]["gflops"], 3 * 2.0 * 3 * 2 * 3 * 8 * (5 + 8) * 1e-6);
  EXPECT_GT(answers[1]["milliseconds"], 0);
  EXPECT_GT(answers[2]["milliseconds"], 0);
  EXPECT_NE(answers[3]["error"].get<std::string>().find("implementation 2"), std::string::npos);
  const auto tensors = io::SafetensorsFile::open(file);
  for (const auto& [name, count] : std::map<std::string, std::int64_t>{{"x", 30},
                                                                       {"h0", 16},
                                                                       {"weight_ih.0", 120},
                                                                       {"y", 48},
                                                                       {"hn", 16},
                                                                       {"dx", 30},
                                                                       {"d_weight_hh.0", 192},
                                                                       {"d_bias_hh.0", 24}}) {
    ASSERT_NE(tensors.find(name), nullptr) << name;
    EXPECT_EQ(tensors.read(name).shape, base::Shape{count}) << name;
  }
  EXPECT_EQ(tensors.find("c0"), nullptr);
  EXPECT_EQ(tensors.find("lengths"), nullptr);
}

TEST(Turns, TellRowLengths) {
  const testing::TemporaryFolder folder;
  const std::string file = (folder.path() / "t.safetensors").native();
  const std::string shape = " a time=3 batch=2 input=5 hidden=8 lengths=uniform\n";
  const auto answers =
      said("open " + file + " forward auto" + shape + "open " + file + " forward onednn" + shape);
  ASSERT_EQ(answers.size(), 2U);
  EXPECT_TRUE(answers[0].contains("rows")) << answers[0];
  EXPECT_EQ(io::SafetensorsFile::open(file).read("lengths").values<std::int32_t>().size(), 2U);
  EXPECT_TRUE(answers[1].contains("error")) << answers[1];
}

TEST(Turns, StepThroughTheApi) {
  const testing::TemporaryFolder folder;
  const std::string file = (folder.path() / "t.safetensors").native();
  const auto answers =
      said("open " + file + " step auto a time=3 batch=1 input=5 hidden=8\nrun 0 4\n");
  ASSERT_EQ(answers.size(), 2U);
  EXPECT_EQ(answers[0]["rows"][0]["implementation"], "feature-model");
  EXPECT_GT(answers[1]["milliseconds"], 0);
  EXPECT_EQ(io::SafetensorsFile::open(file).read("y").shape, base::Shape{24});
}

TEST(Turns, AnswerMistakesAndGoOn) {
  const testing::TemporaryFolder folder;
  const std::string file = (folder.path() / "t.safetensors").native();
  const auto answers =
      said("run 0 1\nwalk\nopen " + file + " sideways auto a\nopen " + file +
           " forward auto a hiden=3\nopen " + file + " step onednn a batch=1\nopen " + file +
           " forward auto a time=2 batch=1 input=3 hidden=4\nrun 0 0\nrun 0 1\n");
  ASSERT_EQ(answers.size(), 8U);
  const std::vector<std::string> expected{"nothing is open", "unknown command 'walk'",
                                          "unknown pass 'sideways'", "hiden", "not 'onednn'"};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NE(answers[i]["error"].get<std::string>().find(expected[i]), std::string::npos)
        << answers[i];
  }
  EXPECT_TRUE(answers[5].contains("rows")) << answers[5];
  EXPECT_NE(answers[6]["error"].get<std::string>().find("run INDEX COUNT"), std::string::npos);
  EXPECT_GT(answers[7]["milliseconds"], 0);
}

}  // namespace
}  // namespace sluice::bench
