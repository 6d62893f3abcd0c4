#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>

#include "end_to_end/workplace.h"
#include "unit/support/source_path.h"

namespace sluice::end_to_end {
namespace {

/// The number behind `name` at the beginning of a line.
double printed(const std::string& out, const std::string& name) {
  std::smatch match;
  const std::regex line("(^|\n)" + std::regex_replace(name, std::regex("\\+"), "\\+") +
                        " ([0-9.]+)");
  EXPECT_TRUE(std::regex_search(out, match, line)) << name << " is not in " << out;
  return match.empty() ? -1 : std::stod(match[2]);
}

void write_lines(const Workplace& place, const std::string& name, const nlohmann::json& lines) {
  std::string text;
  for (const auto& line : lines) text += line.get<std::string>() + '\n';
  place.write(name, text);
}

TEST(Evaluate, PrintsTheNumbersOfSacrebleu) {
  const Workplace place;
  std::ifstream file(sluice::testing::source_path("tests/peers/goldens/text_metrics.json"));
  const nlohmann::json goldens = nlohmann::json::parse(file);
  for (const char* name : {"plain", "chinese"}) {
    for (const nlohmann::json& golden : goldens.at("cases")) {
      if (golden.at("name") != name) continue;
      write_lines(place, "answers", golden.at("hypotheses"));
      write_lines(place, "right", golden.at("references"));
      for (const auto& [tokenizer, expected] : golden.at("bleu").items()) {
        const Outcome outcome = place.sluice(
            {"evaluate", "answers", "right", "--tokenizer", tokenizer, "--digits", "9"});
        ASSERT_EQ(outcome.code, 0) << outcome.err;
        EXPECT_NEAR(printed(outcome.out, "BLEU"), expected.at("score"), 1e-8);
        EXPECT_NE(outcome.out.find("|tok:" + tokenizer + "|"), std::string::npos) << outcome.out;
        EXPECT_NEAR(printed(outcome.out, "chrF2"), golden.at("chrf").at("chrF2"), 1e-8);
        EXPECT_NEAR(printed(outcome.out, "chrF2++"), golden.at("chrf").at("chrF2++"), 1e-8);
      }
    }
  }
}

TEST(Evaluate, ReadsStandardInputAndCountsWhatIsExact) {
  const Workplace place;
  place.write("right", "a b c d\nb\n\ne f\n");
  const Outcome outcome =
      place.sluice({"evaluate", "-", "right"}, {.input = "a b c d\nb.\n\ne  f\n"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  EXPECT_NE(outcome.out.find("exact match 50.00%  2 of 4 lines\n"), std::string::npos)
      << outcome.out;
}

TEST(Evaluate, RefusesWhatDoesNotFit) {
  const Workplace place;
  place.write("two", "a\nb\n");
  place.write("three", "a\nb\nc\n");
  place.write("bad", "a\n\xc3(\n");
  place.write("empty", "");
  place.expect_error({"evaluate", "two", "three"}, {"'two' has 2 lines but 'three' has 3"});
  place.write("one", "a\n");
  place.expect_error({"evaluate", "one", "two"}, {"'one' has 1 line but 'two' has 2"});
  place.expect_error({"evaluate", "-", "two"}, {"standard input has 1 line but 'two' has 2"},
                     {.input = "a\n"});
  place.expect_error({"evaluate", "two", "none"}, {"there is no file 'none'"});
  place.expect_error({"evaluate", "bad", "two"}, {"'bad' line 2 is not valid UTF-8"});
  place.expect_error({"evaluate", "empty", "empty"}, {"'empty' is empty"});
  place.expect_error({"evaluate", "two", "two", "--tokenizer", "intl"},
                     {"'intl'", "13a, zh, char, none"});
}

}  // namespace
}  // namespace sluice::end_to_end
