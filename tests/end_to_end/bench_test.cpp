#include <map>
#include <nlohmann/json.hpp>

#include "end_to_end/workplace.h"

namespace sluice::end_to_end {
namespace {

TEST(Bench, WritesResults) {
  const Workplace place;
  place.write("tiny.shapes",
              "# a comment\n"
              "tiny cell=gru time=3 batch=2 input=5 hidden=8\n"
              "both cell=lstm time=3 batch=2 input=5 hidden=8 layers=2 directions=2 "
              "lengths=uniform seed=7\n"
              "original cell=gru_reset_before time=3 batch=2 input=5 hidden=8\n"
              "plain cell=rnn_tanh time=3 batch=2 input=5 hidden=8\n"
              "rectified cell=rnn_relu time=3 batch=2 input=5 hidden=8\n");
  for (const std::string cell : {"lstm", "gru", "gru_reset_before", "rnn_tanh", "rnn_relu"}) {
    const Outcome outcome = place.sluice({"bench", cell, "--shapes", "tiny.shapes", "--impl", "all",
                                          "--repeats", "1", "--json", "out.json"});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const nlohmann::json results = nlohmann::json::parse(place.read("out.json"));
    ASSERT_TRUE(results.is_array());
    ASSERT_GE(results.size(), 2U);
    bool forward = false, backward = false;
    for (const auto& result : results) {
      for (const char* key :
           {"name",           "cell",       "time",         "batch",   "input", "hidden", "layers",
            "directions",     "projection", "dtype",        "lengths", "seed",  "device", "pass",
            "implementation", "peer",       "milliseconds", "gflops",  "error", "commit"}) {
        EXPECT_TRUE(result.contains(key)) << key;
      }
      EXPECT_EQ(result["cell"], cell);
      EXPECT_FALSE(result["commit"].get<std::string>().empty());
      EXPECT_GT(result["milliseconds"], 0);
      EXPECT_LT(result["error"], 1e-4) << result;  // float32 against float64, sums of 21 terms
      forward = forward || result["pass"] == "forward";
      backward = backward || result["pass"] == "forward+backward";
    }
    EXPECT_TRUE(forward && backward);
  }
}

TEST(Bench, ReportsWhatItWrote) {
  const Workplace place;
  place.write("tiny.shapes", "tiny time=3 batch=2 input=5 hidden=8 pass=forward\n");
  const Outcome bench = place.sluice({"bench", "lstm", "--shapes", "tiny.shapes", "--dtype", "bf16",
                                      "--repeats", "1", "--json", "own.json"});
  ASSERT_EQ(bench.code, 0) << bench.err;
  nlohmann::json peer = {nlohmann::json::parse(place.read("own.json")).at(0)};
  peer[0]["implementation"] = "torch";
  peer[0]["peer"] = true;
  peer[0]["default"] = false;
  place.write("peer.json", peer.dump());
  const Outcome report =
      place.sluice({"bench", "report", "own.json", "peer.json", "--html", "out.html"});
  EXPECT_EQ(report.code, 0) << report.err;
  EXPECT_NE(report.out.find("lstm bfloat16 forward on cpu"), std::string::npos) << report.out;
  EXPECT_NE(report.out.find("torch (peer)"), std::string::npos) << report.out;
  EXPECT_NE(place.read("out.html").find("<svg"), std::string::npos);
  peer[0]["milliseconds"] = "fast";
  place.write("bad.json", peer.dump());
  place.expect_error({"bench", "report", "own.json", "bad.json"},
                     {"bad.json", "result 1", "'milliseconds'"});
  place.expect_error({"bench", "report", "own.json", "own.json"}, {"own.json", "give only one"});
}

TEST(Bench, PrintsLadderTableAndProducts) {
  const Workplace place;
  place.write("tiny.shapes", "tiny time=3 batch=2 input=5 hidden=8\n");
  const auto expect = [&](const std::string& command, const std::vector<std::string>& said) {
    const Outcome outcome = place.sluice(split("bench " + command, ' '));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    for (const std::string& text : said) {
      EXPECT_NE(outcome.out.find(text), std::string::npos) << text << '\n' << outcome.out;
    }
  };
  expect("ladder --device cpu --shapes tiny.shapes --repeats 1", {"portable", "1.00x", "(peer)"});
  expect("table --shapes tiny.shapes --repeats 1", {"BlockFused", "cuDNN", "onednn"});
  expect("gemm --shapes tiny.shapes --repeats 1", {"6 x 32 x 5", "gradient", "onednn (peer)"});
  place.expect_error({"bench", "ladder", "--device", "cuda:99"},
                     {"device cuda:99 is not available: ", "; or use the device cpu"});
  place.expect_error({"bench", "gemm", "--shapes", "tiny.shapes", "--lib", "blas"},
                     {"unknown library 'blas'", "onednn"});
}

TEST(Bench, SweepsShapesAndWritesTablesOfPages) {
  const Workplace place;
  const auto sweep = [&] {
    return place.sluice({"bench", "sweep", "--count", "6", "--seed", "9", "--device", "cpu",
                         "--most-gflop", "0.004", "--dtype", "float32", "--repeats", "2", "--json",
                         "sweep.json"});
  };
  const Outcome first = sweep();
  ASSERT_EQ(first.code, 0) << first.err;
  for (const char* said : {"seed 9: 6 shapes on cpu", "s9_6 ", "Slower than the fastest peer: ",
                           "Errors were held against:", "geometric means"}) {
    EXPECT_NE(first.out.find(said), std::string::npos) << said << '\n' << first.out;
  }
  const auto names = [&] {
    std::vector<std::string> found;
    for (const auto& row : nlohmann::json::parse(place.read("sweep.json"))) {
      found.push_back(row["name"]);
    }
    return found;
  };
  const std::vector<std::string> measured = names();
  EXPECT_GE(measured.size(), 2U);
  EXPECT_EQ(sweep().code, 0);
  EXPECT_EQ(names(), measured);
  EXPECT_EQ(place.sluice({"bench", "report", "sweep.json", "--join", "joined.json"}).code, 0);
  place.write("page.md", "<!-- table times joined.json -->\n<!-- end of table -->\n");
  place.expect_error({"bench", "report", "--page", "page.md", "--check"},
                     {"page.md is not what the results say"});
  EXPECT_EQ(place.sluice({"bench", "report", "--page", "page.md"}).code, 0);
  EXPECT_EQ(place.sluice({"bench", "report", "--page", "page.md", "--check"}).code, 0);
  EXPECT_NE(place.read("page.md").find("| " + measured.front() + " | float32 |"),
            std::string::npos);
  place.expect_error({"bench", "sweep", "--device", "cuda:99"}, {"cuda:99"});
  place.expect_error({"bench", "sweep", "--device", "cpu", "--peers", "mkl"}, {"no peer 'mkl'"});
}

TEST(Bench, TrainsASeq2SeqModel) {
  const Workplace place;
  place.write("tiny.shapes",
              "tiny vocabulary=20 embedding=6 hidden=8 batch=3 source_time=4 target_time=5\n");
  const Outcome outcome = place.sluice(
      {"bench", "train", "--shapes", "tiny.shapes", "--repeats", "2", "--json", "out.json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("pairs/s"), std::string::npos) << outcome.out;
  const nlohmann::json result = nlohmann::json::parse(place.read("out.json")).at(0);
  EXPECT_EQ(result["cell"], "seq2seq");
  EXPECT_GT(result["milliseconds"], 0);
  EXPECT_GT(result["peak_bytes"], 0);
  place.expect_error({"bench", "train", "--shapes", "tiny.shapes", "--device", "cuda:99"},
                     {"cuda:99"});
}

/// Whatever speeds are: tiny steps on two ranks are no faster than on one.
TEST(Bench, MeasuresSeveralDevices) {
  const Workplace place;
  place.write("tiny.shapes",
              "tiny vocabulary=50 embedding=8 hidden=8 batch=4 source_time=3 target_time=4 "
              "layers=1\n");
  Outcome outcome = place.sluice({"bench", "scaling", "--shapes", "tiny.shapes", "--devices",
                                  "cpu,cpu,cpu,cpu", "--repeats", "3", "--json", "out.json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("all-reduce"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("tree"), std::string::npos) << outcome.out;
  std::map<std::pair<int, int>, int> rows;  // by ranks and the batch of each
  for (const auto& row : nlohmann::json::parse(place.read("out.json"))) {
    ++rows[{row.value("ranks", 1), row["batch"].get<int>()}];
    if (row.contains("ranks")) {
      EXPECT_GT(row["apart_milliseconds"], 0);
      EXPECT_GT(row["all_reduce_milliseconds"], 0);
    }
  }
  const std::map<std::pair<int, int>, int> expected{
      {{1, 4}, 1}, {{2, 4}, 1}, {{4, 4}, 1}, {{2, 2}, 1}, {{4, 1}, 1}};
  EXPECT_EQ(rows, expected);
  outcome = place.sluice({"bench", "train", "--shapes", "tiny.shapes", "--devices", "cpu,cpu",
                          "--async", "0.3", "--slow", "1=3", "--json", "async.json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(nlohmann::json::parse(place.read("async.json")).size(), 4u);
  outcome = place.sluice({"bench", "train", "--shapes", "tiny.shapes", "--devices", "cpu,cpu",
                          "--async", "0.3", "--slow", "one"});
  EXPECT_NE(outcome.code, 0);
  EXPECT_NE(outcome.err.find("--slow is 'one'"), std::string::npos) << outcome.err;
}

TEST(Bench, SearchesByBeam) {
  const Workplace place;
  place.write("tiny.shapes",
              "tiny vocabulary=9 embedding=6 hidden=8 layers=1 inputs=2 beam=3 steps=20\n");
  const Outcome outcome = place.sluice({"bench", "beam", "--shapes", "tiny.shapes", "--repeats",
                                        "2", "--check", "--json", "out.json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("6 of 6"), std::string::npos) << outcome.out;
  EXPECT_GT(nlohmann::json::parse(place.read("out.json")).at(0)["milliseconds"], 0);
  EXPECT_EQ(place.sluice({"bench", "report", "out.json"}).code, 0);
  place.expect_error({"bench", "beam", "--shapes", "tiny.shapes", "--device", "cuda:99"},
                     {"cuda:99"});
}

TEST(Bench, RefusesBadShapesAndLeavesNoFile) {
  const Workplace place;
  place.write("bad.shapes", "good cell=lstm hidden=4\nbad cell=lstm hiden=4\n");
  const std::vector<std::string> before = place.files();
  place.expect_error({"bench", "lstm", "--shapes", "bad.shapes", "--json", "out.json"},
                     {"bad.shapes:2", "hiden", "did you mean 'hidden'"});
  place.expect_error({"bench", "lstm", "--shapes", "none.shapes"}, {"none.shapes"});
  for (const auto& [cell, where] : std::vector<std::pair<std::string, std::string>>{
           {"lstm", "bench/shapes/cpu.shapes has some"},
           {"rnn_tanh", "bench/shapes/plain_rnn.shapes has some"},
           {"rnn_relu", "bench/shapes/plain_rnn.shapes has some"},
           {"gru_reset_before", "'table cell=gru_reset_before time=100 "}}) {
    const Outcome unnamed = place.sluice({"bench", cell});
    EXPECT_EQ(unnamed.code, 2);
    EXPECT_NE(unnamed.err.find("--shapes FILE ("), std::string::npos) << unnamed.err;
    EXPECT_NE(unnamed.err.find(where), std::string::npos) << unnamed.err;
    EXPECT_NE(place.sluice({"bench", cell, "--help"}).out.find(where.substr(0, 20)),
              std::string::npos);
  }
  EXPECT_EQ(place.files(), before);
}

}  // namespace
}  // namespace sluice::end_to_end
