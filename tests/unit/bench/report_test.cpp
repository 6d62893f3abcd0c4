#include "bench/report/report.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "bench/recurrent_bench.h"
#include "bench/report/bar_plot.h"
#include "bench/report/comparison.h"
#include "bench/report/html_report.h"
#include "bench/report/text_report.h"
#include "sluice/error.h"
#include "unit/support/message_of.h"
#include "unit/support/temporary_folder.h"

namespace sluice::bench::report {
namespace {

using nlohmann::json;

json result(const std::string& name, const std::string& implementation, double milliseconds) {
  return {{"name", name},
          {"cell", "lstm"},
          {"time", 3},
          {"batch", 2},
          {"input", 4},
          {"hidden", 8},
          {"layers", 1},
          {"directions", 1},
          {"projection", 0},
          {"dtype", "float32"},
          {"lengths", "full"},
          {"device", "cuda"},
          {"pass", "forward"},
          {"device_model", "GPU"},
          {"implementation", implementation},
          {"peer", false},
          {"default", false},
          {"milliseconds", milliseconds},
          {"gflops", 1.0},
          {"threads", 2},
          {"cpu", "CPU"},
          {"commit", "abc"}};
}

json peer(const std::string& name, const std::string& implementation, double milliseconds) {
  json row = result(name, implementation, milliseconds);
  row["peer"] = true;
  row["device"] = "cuda:0";  // the same as "cuda"
  return row;
}

json chosen(const std::string& name, const std::string& implementation, double milliseconds) {
  json row = result(name, implementation, milliseconds);
  row["default"] = true;
  return row;
}

std::vector<Group> groups_of(const json& list) { return compare(parse_results(list.dump(), "f")); }

std::string message_of(const std::string& text) {
  return testing::message_of([&] { parse_results(text, "f.json"); });
}

TEST(Report, TakesTheTurnsOfARunForItsRatio) {
  json own = chosen("a", "fused", 2.0);
  own["speedup_over_peer"] = 3.0;
  own["turns"] = "run 1";
  json torch = peer("a", "torch", 8.0);
  torch["speedup_over_peer"] = 1.0;
  torch["turns"] = "run 1";
  const auto ratio = [&](const std::vector<Measurement>& measurements) {
    const Row row = compare(measurements)[0].rows[0];
    return *row.ratio_of(row.default_own());
  };
  const auto turns = parse_results(json{own, torch}.dump(), "f");
  EXPECT_DOUBLE_EQ(ratio(turns), 3.0);
  // A faster peer took no turns with it.
  auto more = turns;
  more.push_back(parse_results(json{peer("a", "jax-scan", 5.0)}.dump(), "g")[0]);
  EXPECT_DOUBLE_EQ(ratio(more), 2.5);
}

TEST(Report, ComparesWithTheFastestPeer) {
  const auto groups =
      groups_of({result("a", "wavefront", 1.0), chosen("a", "fused", 2.0), peer("a", "torch", 8.0),
                 peer("a", "jax-scan", 4.0), chosen("b", "fused", 4.0), peer("b", "torch", 2.0),
                 chosen("lonely", "fused", 1.0)});
  ASSERT_EQ(groups.size(), 1u);
  ASSERT_EQ(groups[0].rows.size(), 3u);
  const Row& a = groups[0].rows[0];
  EXPECT_EQ(a.best_peer()->implementation, "jax-scan");
  EXPECT_EQ(a.best_own()->implementation, "wavefront");
  EXPECT_EQ(a.default_own()->implementation, "fused");
  EXPECT_DOUBLE_EQ(*a.ratio_of(a.default_own()), 2.0);
  EXPECT_DOUBLE_EQ(*a.ratio_of(a.best_own()), 4.0);
  const Row& lonely = groups[0].rows[2];
  EXPECT_FALSE(lonely.ratio_of(lonely.default_own()).has_value());
  const auto summary = summarize(groups);
  ASSERT_TRUE(summary.has_value());
  EXPECT_EQ(summary->rows, 2u);
  EXPECT_DOUBLE_EQ(summary->default_mean, 1.0);          // sqrt(2 * 1/2)
  EXPECT_DOUBLE_EQ(summary->best_mean, std::sqrt(2.0));  // sqrt(4 * 1/2)
  EXPECT_DOUBLE_EQ(summary->best_lowest, 0.5);
}

TEST(Report, KeepsApartWhatDiffers) {
  for (const auto& [key, value] : std::map<std::string, json>{{"name", "b"},
                                                              {"cell", "gru"},
                                                              {"hidden", 9},
                                                              {"projection", 1},
                                                              {"dtype", "tf32"},
                                                              {"lengths", "uniform"},
                                                              {"pass", "forward+backward"},
                                                              {"device", "cuda:1"},
                                                              {"device_model", "other"}}) {
    json other = peer("a", "torch", 1);
    other[key] = value;
    std::size_t rows = 0;
    for (const Group& group : groups_of({chosen("a", "fused", 1), other})) {
      rows += group.rows.size();
    }
    EXPECT_EQ(rows, 2u) << key;
  }
  json host = chosen("a", "fused", 1);
  host["device"] = "cpu";
  json with_one_thread = host;
  with_one_thread["threads"] = 1;
  EXPECT_EQ(groups_of({host, with_one_thread}).size(), 2u);
}

TEST(Report, RefusesTheSameTwice) {
  EXPECT_THROW(groups_of({peer("a", "torch", 1), peer("a", "torch", 2)}), Error);
}

TEST(Report, NamesFileEntryAndKey) {
  EXPECT_NE(message_of("[{},\n{\"name\": }]").find("f.json:2: this is not JSON"),
            std::string::npos);
  EXPECT_NE(message_of("{}").find("no list"), std::string::npos);
  EXPECT_NE(message_of("[]").find("no list"), std::string::npos);
  EXPECT_NE(message_of("[3]").find("result 1 is not an object"), std::string::npos);
  EXPECT_NE(message_of("[1e999]").find("too large"), std::string::npos);
  const json good = chosen("a", "fused", 1);
  EXPECT_EQ(message_of(json{good}.dump()), "");
  for (const auto& [key, value] :
       std::vector<std::pair<std::string, json>>{{"name", 3},
                                                 {"name", ""},
                                                 {"name", "a\nb"},
                                                 {"name", std::string(201, 'x')},
                                                 {"cell", "rnn"},
                                                 {"time", 0},
                                                 {"time", -1},
                                                 {"time", 1.5},
                                                 {"hidden", 1e300},
                                                 {"hidden", 18446744073709551615u},
                                                 {"projection", "1"},
                                                 {"lengths", "some"},
                                                 {"milliseconds", 0},
                                                 {"milliseconds", -1},
                                                 {"milliseconds", "1"},
                                                 {"peer", 1},
                                                 {"default", nullptr},
                                                 {"device", nullptr},
                                                 {"device_model", json::array()},
                                                 {"implementation", json::object()}}) {
    json bad = good;
    bad[key] = value;
    const std::string message = message_of(json{good, bad}.dump());
    EXPECT_NE(message.find("f.json: result 2 has a '" + key + "'"), std::string::npos)
        << key << ": " << message;
  }
  for (const auto& item : good.items()) {
    if (item.key() == "gflops" || item.key() == "commit" || item.key() == "cpu" ||
        item.key() == "threads") {
      continue;  // not needed
    }
    json lacking = good;
    lacking.erase(item.key());
    EXPECT_NE(message_of(json{lacking}.dump()).find("no key '" + item.key() + "'"),
              std::string::npos);
  }
  EXPECT_EQ(testing::message_of([] { read_results("/nonexistent.json"); }),
            "cannot open '/nonexistent.json': No such file or directory");
  EXPECT_THROW(read_results("/"), Error);
}

TEST(Report, SurvivesDeepNesting) {
  EXPECT_NE(message_of(std::string(1000000, '[')).find("not JSON"), std::string::npos);
  const std::string deep = std::string(100000, '[') + std::string(100000, ']');
  EXPECT_NE(message_of(deep).find("not an object"), std::string::npos);
}

TEST(Report, ReadsWhatTheBenchWrites) {
  BenchResult own;
  own.shape.name = "a";
  own.implementation = "portable";
  own.device_model = "cpu";
  own.milliseconds = 2;
  own.is_default = true;
  BenchResult library = own;
  library.implementation = "onednn";
  library.is_default = false;
  library.peer = true;
  library.milliseconds = 3;
  const auto groups = compare(parse_results(to_json({own, library}), "f"));
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_DOUBLE_EQ(summarize(groups)->default_mean, 1.5);
}

TEST(Report, FormatsThreeDigits) {
  EXPECT_EQ(format_milliseconds(0.0461234), "0.0461");
  EXPECT_EQ(format_milliseconds(1.0), "1.00");
  EXPECT_EQ(format_milliseconds(12.345), "12.3");
  EXPECT_EQ(format_milliseconds(1024.4), "1024");
}

TEST(Report, WritesTableAndPage) {
  const sluice::testing::TemporaryFolder folder;
  const std::string hostile = "<script>alert('&\")</script>";
  folder.write("own.json", json{chosen("a", "fused", 2), result("a", "wavefront", 1)}.dump());
  folder.write("peer.json", json{peer("a", "torch", 4), peer("a", hostile, 3)}.dump());
  ReportOptions options;
  options.files = {(folder / "own.json").string(), (folder / "peer.json").string()};
  options.html = (folder / "out.html").string();
  std::ostringstream out;
  run_report(options, out);
  for (const char* said : {"lstm float32 forward on cuda:0: GPU", "1.50x", "3.00x", "2.00 fused",
                           "1.00 wavefront, 2.00 fused", "4.00 torch (peer)", "Geometric mean"}) {
    EXPECT_NE(out.str().find(said), std::string::npos) << said << '\n' << out.str();
  }
  std::stringstream stream;
  stream << std::ifstream(options.html).rdbuf();
  const std::string page = stream.str();
  EXPECT_TRUE(page.starts_with("<!DOCTYPE html>"));
  EXPECT_NE(page.find("<svg"), std::string::npos);
  EXPECT_EQ(page.find("<script"), std::string::npos);
  EXPECT_NE(page.find("&lt;script&gt;alert(&#39;&amp;&quot;)"), std::string::npos);
  for (auto at = page.find("http"); at != std::string::npos; at = page.find("http", at + 1)) {
    EXPECT_EQ(page.substr(at, 26), "http://www.w3.org/2000/svg");  // a name; nothing to fetch
  }
  options.html = "/nonexistent/out.html";
  EXPECT_THROW(run_report(options, out), Error);
}

TEST(BarPlot, PutsBarsOnTheirSideOfOne) {
  const std::string plot = bar_plot({{"fast", "", 2.0, 4.0}, {"slow", "", 0.5, 0.5}});
  const auto count = [&](const std::string& part) {
    std::size_t found = 0;
    for (auto at = plot.find(part); at != std::string::npos; at = plot.find(part, at + 1)) ++found;
    return found;
  };
  EXPECT_EQ(count("class=\"best faster\""), 1u);
  EXPECT_EQ(count("class=\"default faster\""), 1u);
  EXPECT_EQ(count("class=\"best slower\""), 1u);
  EXPECT_EQ(count("class=\"default slower\""), 0u);  // the same as the best one
  EXPECT_EQ(count("<g>"), count("</g>"));
  EXPECT_NE(bar_plot({{"far", "", 1e-300, 1e300}}).find("</svg>"), std::string::npos);
}

}  // namespace
}  // namespace sluice::bench::report
