// BLEU and chrF equal those of the sacrebleu package (tests/peers/text_metrics.py writes the
// goldens).
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "metrics/bleu.h"
#include "metrics/chrf.h"
#include "unit/support/source_path.h"
#include "unit/support/temporary_folder.h"

namespace sluice::metrics {
namespace {

using Json = nlohmann::json;

// Both sides take the same few logarithms and sums in float64 of scores up to 100.
constexpr double kTolerance = 1e-10;

Json read_goldens() {
  std::ifstream file(testing::source_path("tests/peers/goldens/text_metrics.json"));
  return Json::parse(file);
}

template <typename Metric>
void add_lines(Metric& metric, const Json& golden) {
  const Json& hypotheses = golden.at("hypotheses");
  for (std::size_t i = 0; i < hypotheses.size(); ++i) {
    metric.add(hypotheses[i].get<std::string>(), golden.at("references")[i].get<std::string>());
  }
}

TEST(TextMetrics, BleuIsThatOfSacrebleu) {
  const Json goldens = read_goldens();
  double largest = 0;
  for (const Json& golden : goldens.at("cases")) {
    for (const auto& [tokenizer, expected] : golden.at("bleu").items()) {
      SCOPED_TRACE(golden.at("name").get<std::string>() + ", " + tokenizer);
      Bleu bleu(parse_bleu_tokenizer(tokenizer));
      add_lines(bleu, golden);
      const BleuScore score = bleu.score();
      EXPECT_NEAR(score.score, expected.at("score"), kTolerance);
      EXPECT_NEAR(score.brevity_penalty, expected.at("brevity_penalty"), kTolerance);
      for (std::size_t n = 0; n < kBleuOrder; ++n) {
        EXPECT_NEAR(score.precisions[n], expected.at("precisions")[n], kTolerance) << n;
      }
      EXPECT_EQ(score.hypothesis_tokens, expected.at("hypothesis_tokens"));
      EXPECT_EQ(score.reference_tokens, expected.at("reference_tokens"));
      largest = std::max(largest, score.score);
    }
  }
  EXPECT_GT(largest, 99);
}

TEST(TextMetrics, ChrfIsThatOfSacrebleu) {
  const Json goldens = read_goldens();
  for (const Json& golden : goldens.at("cases")) {
    for (const auto& [name, word_order] : {std::pair{"chrF2", 0}, std::pair{"chrF2++", 2}}) {
      SCOPED_TRACE(golden.at("name").get<std::string>() + ", " + name);
      Chrf chrf({.word_order = static_cast<std::size_t>(word_order)});
      add_lines(chrf, golden);
      EXPECT_NEAR(chrf.score(), golden.at("chrf").at(name), kTolerance);
    }
  }
}

TEST(TextMetrics, OfNoLinesAreZero) {
  EXPECT_EQ(Bleu().score().score, 0);
  EXPECT_EQ(Chrf().score(), 0);
}

TEST(TextMetrics, SignaturesSayWhatTheyDependOn) {
  EXPECT_EQ(Bleu(BleuTokenizer::kZh).signature(), "nrefs:1|case:mixed|eff:no|tok:zh|smooth:exp");
  EXPECT_EQ(Chrf({.word_order = 2}).signature(), "nrefs:1|case:mixed|eff:yes|nc:6|nw:2|space:no");
}

TEST(TextMetrics, RefuseWhatCannotBe) {
  EXPECT_EQ(testing::error_of([] { Chrf({.character_order = 0}); }).code(),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(testing::error_of([] { Chrf().add("a", "\xff"); }).code(), ErrorCode::kFormat);
}

}  // namespace
}  // namespace sluice::metrics
