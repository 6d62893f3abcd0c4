#include "decoding/attention_view.h"

#include <gtest/gtest.h>

#include <limits>

#include "data/utf8.h"
#include "decoding/token_label.h"
#include "sluice/error.h"

namespace sluice::decoding {
namespace {

std::int64_t count(const std::string& text, const std::string& part) {
  std::int64_t n = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

const AttentionView kDates{
    {"五", "月", " ", "5"}, {"0", "5"}, {{1, 0, 0.12f, 0}, {0.3f, 0, 0, 0.6f}}};

TEST(AttentionText, ShadesCharactersInColumnsOfTheirWidth) {
  EXPECT_EQ(attention_text(kDates),
            "   五月␣5\n"
            "0 │██  ░ │\n"
            "5 │▒▒   ▓│\n");
}

TEST(AttentionText, ListsWordsByWeight) {
  const AttentionView view{{"the", "house", "."}, {"Haus", "."}, {{0.2f, 0.75f, 0.05f}, {0, 0, 1}}};
  EXPECT_EQ(attention_text(view),
            "Haus ← house 0.75, the 0.20\n"
            ".    ← . 1.00\n");
}

TEST(AttentionText, ListsCharactersThatDoNotFit) {
  EXPECT_EQ(attention_text(kDates, 8), "0 ← 五 1.00, ␣ 0.12\n5 ← 5 0.60, 五 0.30\n");
}

TEST(AttentionSvg, DrawsACellForEveryWeight) {
  const std::string svg = attention_svg(kDates);
  EXPECT_EQ(count(svg, "<rect "), 8 + 2);  // cells, background, scale
  EXPECT_EQ(count(svg, "fill=\"#08306b\"><title>0 ← 五: 1.000"), 1);
  EXPECT_EQ(count(svg, "fill=\"#ffffff\"><title>0 ← 月: 0.000"), 1);
  EXPECT_EQ(count(svg, ">月</text>"), 1);
  EXPECT_EQ(count(svg, "rotate("), 0);
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
}

TEST(AttentionSvg, TurnsWideLabelsAndEscapesThem) {
  const AttentionView view{{"a<b & \"c\">", "bad\xFF\x01"}, {"</text>"}, {{0.5f, 0.5f}}};
  const std::string svg = attention_svg(view);
  EXPECT_EQ(count(svg, "rotate(-45)"), 2);
  EXPECT_EQ(count(svg, ">a&lt;b␣&amp;␣&quot;c&quot;&gt;</text>"), 1);
  EXPECT_EQ(count(svg, ">bad\uFFFD\uFFFD</text>"), 1);
  EXPECT_EQ(count(svg, "&lt;/text&gt;</text>"), 1);
  EXPECT_EQ(data::find_invalid_utf8(svg), svg.size());
  EXPECT_EQ(count(svg, "<text "), count(svg, "</text>"));
}

TEST(AttentionSvg, TakesAnythingAsAWeight) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::string svg = attention_svg({{"a", "b", "c"}, {"x"}, {{nan, -1, 7}}});
  EXPECT_EQ(count(svg, "fill=\"#ffffff\"><title>x ← "), 2);
  EXPECT_EQ(count(svg, "fill=\"#08306b\"><title>x ← c"), 1);
  EXPECT_TRUE(attention_svg({}).ends_with("</svg>\n"));
}

TEST(AttentionView, RefusesWeightsWithoutTokens) {
  EXPECT_THROW(attention_svg({{"a"}, {"x", "y"}, {{1}}}), Error);
  EXPECT_THROW(attention_text({{"a", "b"}, {"x"}, {{1}}}), Error);
}

TEST(TokenLabel, MakesEverythingVisible) {
  EXPECT_EQ(token_label(" a\tb\n", 10), "␣a\uFFFDb\uFFFD");
  EXPECT_EQ(token_label("星期二", 3), "星期二");
  EXPECT_EQ(token_label("星期二日", 3), "星期…");
  EXPECT_EQ(token_label("", 3), "");
}

TEST(TokenLabel, KnowsWidths) {
  EXPECT_EQ(display_width("abc"), 3);
  EXPECT_EQ(display_width("二〇，é"), 7);
  EXPECT_EQ(display_width("e\u0301"), 1);
  EXPECT_EQ(display_width("😀"), 2);
}

}  // namespace
}  // namespace sluice::decoding
