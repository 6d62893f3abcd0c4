#include "metrics/bleu_tokens.h"

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "unit/support/temporary_folder.h"

namespace sluice::metrics {
namespace {

std::string joined(std::string_view line, std::string_view tokenizer) {
  return fmt::format("{}", fmt::join(bleu_tokens(line, parse_bleu_tokenizer(tokenizer)), "|"));
}

TEST(BleuTokens, Of13aKeepNumbersWhole) {
  EXPECT_EQ(joined("Well, 1,000.5 (or 2-3)?", "13a"), "Well|,|1,000.5|(|or|2|-|3|)|?");
  EXPECT_EQ(joined(".5 5. a.b e-mail it's", "13a"), ".|5|5|.|a|.|b|e-mail|it's");
  EXPECT_EQ(joined("&quot;a&quot; &amp;lt; <skipped>b", "13a"), "\"|a|\"|<|b");
  EXPECT_EQ(joined(" \u3000", "13a"), "");
}

TEST(BleuTokens, OfChineseAreCharacters) {
  EXPECT_EQ(joined("我2020年去过Berlin。", "zh"), "我|2020|年|去|过|Berlin|。");
  EXPECT_EQ(joined(" .5公里 ", "zh"), ".5|公|里");
}

TEST(BleuTokens, OfCharactersAndOfNone) {
  EXPECT_EQ(joined("aß 😀.", "char"), "a|ß|😀|.");
  EXPECT_EQ(joined(" a, b.\u00a0c ", "none"), "a,|b.|c");
}

TEST(BleuTokens, RefuseWhatTheyDontKnow) {
  const Error unknown = testing::error_of([] { parse_bleu_tokenizer("intl"); });
  EXPECT_STREQ(unknown.what(), "the tokenizer of BLEU is 'intl'; use one of: 13a, zh, char, none");
  for (const std::string_view name : bleu_tokenizer_names()) {
    const Error error =
        testing::error_of([&] { bleu_tokens("a\xff", parse_bleu_tokenizer(name)); });
    EXPECT_EQ(error.code(), ErrorCode::kFormat) << name;
  }
}

}  // namespace
}  // namespace sluice::metrics
