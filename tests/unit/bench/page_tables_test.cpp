#include "bench/report/page_tables.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "bench/report/report.h"
#include "sluice/error.h"
#include "unit/support/message_of.h"
#include "unit/support/source_path.h"
#include "unit/support/temporary_folder.h"

namespace sluice::bench::report {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

json row(const std::string& name, const std::string& dtype, const std::string& pass,
         const std::string& implementation, double milliseconds) {
  const bool own = implementation == "ours";
  return {{"name", name},
          {"cell", "lstm"},
          {"time", 3},
          {"batch", 2},
          {"input", 4},
          {"hidden", 8},
          {"layers", 1},
          {"directions", 1},
          {"projection", 0},
          {"dtype", dtype},
          {"lengths", "full"},
          {"device", "cuda:0"},
          {"pass", pass},
          {"device_model", "A GPU"},
          {"implementation", implementation},
          {"peer", !own},
          {"default", own},
          {"milliseconds", milliseconds},
          {"driver", "1.2"},
          {"libraries", {{"cuDNN", "9"}}},
          {"commit", own ? "abcdefghi" : "1234567-dirty"}};
}

const json kResults{row("a", "bfloat16", "forward", "ours", 1),
                    row("a", "bfloat16", "forward", "cudnn", 4),
                    row("a", "bfloat16", "forward", "torch", 5),
                    row("a", "float16", "forward", "ours", 1),
                    row("a", "float16", "forward", "cudnn", 2),
                    row("a", "bfloat16", "forward+backward", "ours", 2),
                    row("a", "bfloat16", "forward+backward", "cudnn", 6),
                    row("b", "bfloat16", "forward", "ours", 2),
                    row("b", "bfloat16", "forward", "cudnn", 1),
                    row("b", "float32", "forward", "ours", 2),
                    row("b", "float32", "forward", "cudnn", 3)};

WrittenPage whole(const std::string& page, const json& results = kResults) {
  return write_tables(page, "page.md", [&](const std::string& file) {
    EXPECT_EQ(file, "f.json");
    return parse_results(results.dump(), file);
  });
}

std::string written(const std::string& page, const json& results = kResults) {
  return whole(page, results).text;
}

std::string around(const std::string& arguments, const std::string& table = "") {
  return "before\n<!-- table " + arguments + " -->\n" + table + "<!-- end of table -->\nafter\n";
}

constexpr const char* kOrigin =
    "\nA GPU; driver 1.2, cuDNN 9. Commits 1234567, abcdefg. From `f.json`.\n\n";

TEST(PageTables, GiveRatiosOverTheBestPeerOfEither16BitType) {
  const std::string table =
      "\n"
      "| workload | bfloat16 | float16 | float32 |\n|---|---|---|---|\n"
      "| a (T3 B2 I4 H8) | 2.00 / 3.00 | 2.00 |  |\n"
      "| b (T3 B2 I4 H8) | 0.50 |  | 1.50 |\n"
      "| geometric mean | 1.00 / 3.00 | 2.00 | 1.50 |\n";
  EXPECT_EQ(written(around("ratios f.json")), around("ratios f.json", table + kOrigin));
  // What is there is replaced, and writing again changes nothing.
  EXPECT_EQ(written(around("ratios f.json", "old\n")), around("ratios f.json", table + kOrigin));
  EXPECT_EQ(written(written(around("ratios f.json"))), written(around("ratios f.json")));
}

TEST(PageTables, GiveMeansAndPeersOfWhatIsWanted) {
  EXPECT_EQ(
      written(around("means f.json dtype=bfloat16 cell=lstm pass=forward")),
      around("means f.json dtype=bfloat16 cell=lstm pass=forward",
             std::string("\n| layer | pass | shapes | geometric mean | lowest | peers |\n"
                         "|---|---|---|---|---|---|\n"
                         "| lstm bfloat16 | forward | 2 | 1.41 | 0.50 (b) | cudnn, torch |\n") +
                 kOrigin));
  const std::string peers = written(around("peers f.json name=a"));
  EXPECT_NE(peers.find("| torch | lstm bfloat16 | forward | 1 | 5.00 | 5.00 (a, T3"),
            std::string::npos)
      << peers;
  EXPECT_NE(peers.find("| cudnn | lstm float16 | forward | 1 | 2.00 | 2.00"), std::string::npos);
}

TEST(PageTables, GiveTimesAndMemory) {
  json results = kResults;
  results[0]["peak_bytes"] = 3 << 20;
  const std::string table = written(around("times f.json name=a pass=forward"), results);
  EXPECT_NE(table.find("| a | bfloat16 | 1.00 | cudnn | 4.00 | 4.00 | 3 | - |\n"),
            std::string::npos)
      << table;
}

TEST(PageTables, GiveSingleRatiosWithinALine) {
  const std::string before = "x <!-- ratio f.json name=a dtype=float16 pass=forward -->",
                    between = "<!-- end --> y <!-- ratio f.json name=b dtype=float32 -->",
                    after = "<!-- end -->.\n";
  EXPECT_EQ(written(before + "9" + between + after), before + "2.0" + between + "1.5" + after);
  const auto message = [](const std::string& page) {
    return testing::message_of([&] { written(page); });
  };
  EXPECT_NE(
      message("\n<!-- ratio f.json name=a -->1<!-- end -->\n").find("page.md:2: f.json has 3"),
      std::string::npos);
  EXPECT_NE(message("<!-- ratio f.json name=a -->\n").find("a ratio ends in"), std::string::npos);
}

TEST(PageTables, RefuseWhatDoesNotFit) {
  const auto message = [](const std::string& page, const json& results = kResults) {
    return testing::message_of([&] { written(page, results); });
  };
  EXPECT_NE(message(around("sums f.json")).find("page.md:2: 'sums' is no kind"), std::string::npos);
  EXPECT_NE(message(around("means f.json hidden=8")).find("'hidden=8' is none of"),
            std::string::npos);
  EXPECT_NE(message(around("means f.json cell=gru")).find("no such results"), std::string::npos);
  EXPECT_NE(message("<!-- table means f.json -->\n").find("page.md:1: the table has no '<!-- end"),
            std::string::npos);
  EXPECT_NE(message("<!-- end of table -->\n").find("page.md:1: no table"), std::string::npos);
  EXPECT_NE(message("<!-- table means f.json\n").find("doesn't end in"), std::string::npos);
  json other = kResults;
  other[1]["device_model"] = "another";
  EXPECT_NE(message(around("means f.json"), other).find("A GPU and another"), std::string::npos);
}

TEST(PageTables, DrawPictures) {
  const std::string page = "<!-- picture a.svg f.json dtype=bfloat16 -->\n![bars](a.svg)\n";
  const WrittenPage result = whole(page);
  EXPECT_EQ(result.text, page);
  ASSERT_EQ(result.pictures.size(), 1U);
  const std::string& svg = result.pictures.at("a.svg");
  EXPECT_TRUE(svg.starts_with("<svg"));
  for (const char* text : {">LSTM forward, bfloat16<", ">LSTM forward and backward, bfloat16<",
                           ">4.00<", ">3.00<", ">0.50<", "T3 B2 I4 H8: ours against cudnn"}) {
    EXPECT_NE(svg.find(text), std::string::npos) << text << " in " << svg;
  }
  EXPECT_NE(testing::message_of([] {
              whole("<!-- picture a.svg -->\n");
            }).find("page.md:1: a table names its kind and a results file"),
            std::string::npos);
}

TEST(PageTables, AreWrittenOrOnlyChecked) {
  const testing::TemporaryFolder folder;
  const std::string page = (folder.path() / "page.md").string();
  const std::string file = (folder.path() / "f.json").string();
  std::ofstream(file) << kResults.dump();
  std::ofstream(page) << around("means " + file);
  std::ostringstream out;
  EXPECT_THROW(run_page_tables({page}, true, out), Error);
  run_page_tables({page}, false, out);
  EXPECT_EQ(out.str(), page + " is new\n");
  run_page_tables({page}, true, out);
  const std::string picture = (folder.path() / "p.svg").string();
  std::ofstream(page, std::ios::app) << "<!-- picture " << picture << " " << file << " -->\n";
  EXPECT_THROW(run_page_tables({page}, true, out), Error);
  run_page_tables({page}, false, out);
  run_page_tables({page}, true, out);
  EXPECT_TRUE(fs::exists(picture));
}

TEST(JoinedResults, HoldTheSameAndStateTheMachineOnce) {
  const testing::TemporaryFolder folder;
  const std::string first = (folder.path() / "first.json").string();
  const std::string second = (folder.path() / "second.json").string();
  const std::string joined = (folder.path() / "joined.json").string();
  json front = json::array(), back = json::array();
  for (std::size_t i = 0; i < kResults.size(); ++i) (i < 4 ? front : back).push_back(kResults[i]);
  std::ofstream(first) << front.dump(1);
  std::ofstream(second) << back.dump(1);
  std::ofstream(joined) << join_results({first, second});
  json groups;
  std::ifstream(joined) >> groups;
  ASSERT_EQ(groups.size(), 2U);  // of two commits
  EXPECT_FALSE(groups[0]["results"][0].contains("device_model"));
  EXPECT_EQ(groups[0]["common"]["device_model"], "A GPU");
  const auto read = read_results(joined);
  ASSERT_EQ(read.size(), kResults.size());
  std::multimap<Workload, double> expected, found;
  for (const Measurement& m : parse_results(kResults.dump(), "f")) {
    expected.emplace(m.workload, m.milliseconds);
  }
  for (const Measurement& m : read) found.emplace(m.workload, m.milliseconds);
  EXPECT_EQ(found.size(), expected.size());
  for (const auto& [workload, milliseconds] : expected) {
    const auto [begin, end] = found.equal_range(workload);
    EXPECT_TRUE(std::any_of(
        begin, end, [&, time = milliseconds](const auto& entry) { return entry.second == time; }));
  }
  // A joined file can be joined again.
  std::ofstream(first) << join_results({joined});
  EXPECT_EQ(read_results(first).size(), kResults.size());
  std::ofstream(second) << R"([{"common": 1, "results": []}])";
  EXPECT_THROW(read_results(second), Error);
}

/// The tables of all pages are those of the committed results.
TEST(PageTables, OfTheDocumentsAreUpToDate) {
  const fs::path root = testing::source_path("");
  std::vector<fs::path> pages{root / "README.md"};
  for (const auto& entry : fs::recursive_directory_iterator(root / "docs")) {
    // The page of commands shows what such comments look like.
    if (entry.path().parent_path().filename() == "reference") continue;
    if (entry.path().extension() == ".md") pages.push_back(entry.path());
  }
  std::size_t tables = 0;
  for (const fs::path& page : pages) {
    std::ostringstream text;
    text << std::ifstream(page).rdbuf();
    const WrittenPage result =
        write_tables(text.str(), page.string(), [&](const std::string& file) {
          ++tables;
          return read_results(root / file);
        });
    const std::string command =
        "sluice bench report --page " + page.lexically_relative(root).string();
    EXPECT_EQ(result.text, text.str()) << command;
    for (const auto& [path, svg] : result.pictures) {
      std::ostringstream drawn;
      drawn << std::ifstream(root / path).rdbuf();
      EXPECT_EQ(svg, drawn.str()) << command;
    }
  }
  EXPECT_GE(tables, 3U);
}

}  // namespace
}  // namespace sluice::bench::report
