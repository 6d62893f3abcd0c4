#include "bench/ladder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "bench/five_forms.h"
#include "bench/fixed_workload.h"
#include "sluice/error.h"
#include "unit/support/source_path.h"
#include "unit/support/temporary_folder.h"

namespace sluice::bench {
namespace {

// The line of a table that begins with this word; empty if there is none.
std::string line_of(const std::string& text, const std::string& word) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(word + " ")) return line;
  }
  return "";
}

nlohmann::json read_json(const std::filesystem::path& path) {
  std::ifstream file(path);
  return nlohmann::json::parse(file);
}

TEST(FixedWorkload, IsThatOfTheShapeFile) {
  for (const char* name : {"table", "ladder"}) {
    const BenchShape fixed = fixed_workload(name, "", "float32", "cpu");
    const auto named = read_shapes(testing::source_path("bench/shapes/named.shapes"));
    EXPECT_EQ(std::ranges::count(named, fixed), 1) << name;
  }
  EXPECT_EQ(fixed_workload("table", "", "tf32", "cuda").dtype_name(), "tf32");
}

TEST(Ladder, ListsVariantsFromBelowAndPeersLast) {
  const auto device = runtime::open_device("cpu");
  const std::vector<std::string> order = ladder_order(*device);
  EXPECT_EQ(order,
            (std::vector<std::string>{"portable", "avx2", "avx512", "amx", "int8-portable",
                                      "int8-avx2", "int8-avx-vnni", "int8-avx512-vnni", "onednn",
                                      "onednn+graph", "onednn-int8", "onednn-int8+graph"}));
}

TEST(Ladder, PrintsSpeedUpsOverTheLowestVariant) {
  const testing::TemporaryFolder folder;
  LadderOptions options;
  options.shapes = folder.write("a.shapes", "tiny time=3 batch=2 input=5 hidden=8 layers=2\n");
  options.device = "test";
  options.repeats = 1;
  options.json = (folder / "out.json").string();
  std::ostringstream out;
  const std::vector<BenchResult> results = run_ladder(options, out);
  ASSERT_GE(results.size(), 4u);  // portable and onednn, both passes
  EXPECT_NE(out.str().find("tiny: lstm, 3 steps x 2 rows, input 5, hidden 8, 2 layers, float32"),
            std::string::npos)
      << out.str();
  const std::string lowest = line_of(out.str(), "portable");
  EXPECT_NE(lowest.find("1.00x"), lowest.rfind("1.00x")) << out.str();  // in both passes
  EXPECT_NE(line_of(out.str(), "onednn").find("(peer)"), std::string::npos) << out.str();
  EXPECT_EQ(read_json(options.json).size(), results.size());
  options.device = "nowhere";
  EXPECT_THROW(run_ladder(options, out), Error);
}

TEST(FiveForms, NamesOnlyVariantsAndPeers) {
  std::set<std::string_view> known{"auto", "onednn", "cudnn-standard"};
  for (const Variant& variant : variants()) known.insert(variant.name);
  ASSERT_EQ(forms().size(), 6u);
  for (const Form& form : forms()) {
    for (const auto& names : {form.gpu, form.cpu}) {
      for (const std::string& name : names) {
        EXPECT_TRUE(known.contains(name.substr(0, name.find('+')))) << name;
      }
    }
  }
}

TEST(FiveForms, TakeTheFirstThatRanPlainOrCaptured) {
  std::vector<BenchResult> results(4);
  results[0].implementation = "baseline";
  results[1].implementation = "combined-inputs";
  results[2].implementation = "combined-inputs+graph";
  results[3].implementation = "persistent-cluster";
  for (std::size_t i = 0; i < results.size(); ++i) {
    results[i].milliseconds = 5 - static_cast<double>(i);
  }
  results[3].milliseconds = 4.5;
  results[0].is_default = true;
  const auto form = std::ranges::find(forms(), "BlockFused", &Form::name);
  ASSERT_NE(form, forms().end());
  EXPECT_EQ(result_of(results, form->gpu), &results[3]);
  results.pop_back();
  EXPECT_EQ(result_of(results, form->gpu), &results[2]);
  results[2].milliseconds = 6;
  EXPECT_EQ(result_of(results, form->gpu), &results[1]);
  EXPECT_EQ(result_of(results, {"auto"}), &results[0]);
  EXPECT_EQ(result_of(results, form->cpu), nullptr);
}

TEST(FiveForms, PrintsWhatRunsHere) {
  const testing::TemporaryFolder folder;
  FiveFormsOptions options;
  options.shapes = folder.write("a.shapes", "tiny time=3 batch=2 input=5 hidden=8\n");
  options.device = "cuda:99";
  options.repeats = 1;
  options.json = (folder / "out.json").string();
  std::ostringstream out;
  const std::vector<BenchResult> results = run_five_forms(options, out);
  EXPECT_NE(out.str().find("# no GPU column: "), std::string::npos) << out.str();
  EXPECT_NE(line_of(out.str(), "Basic").find("portable"), std::string::npos) << out.str();
  EXPECT_NE(line_of(out.str(), "cuDNN").find("onednn"), std::string::npos) << out.str();
  EXPECT_NE(line_of(out.str(), "Sluice").find("0."), std::string::npos) << out.str();
  EXPECT_EQ(read_json(options.json).size(), results.size());
  options.pass = "all";
  EXPECT_THROW(run_five_forms(options, out), Error);
}

}  // namespace
}  // namespace sluice::bench
