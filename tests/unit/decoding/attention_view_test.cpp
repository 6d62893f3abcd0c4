#include "decoding/attention_view.h"

#include <gtest/gtest.h>

#include <limits>

#include "data/utf8.h"
#include "decoding/token_label.h"
#include "sluice/error.h"
#include "unit/support/png_reader.h"

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

// A square of 16 pixels for each weight, target down, source across.
TEST(AttentionPicture, HasASquareForEachWeight) {
  const Picture picture = attention_picture(kDates);
  const testing::PngPixels image = testing::read_png(picture.png);
  EXPECT_EQ(image.width, 4u * 16);
  EXPECT_EQ(image.height, 2u * 16);
  EXPECT_EQ(picture.width, 4 * 16);
  EXPECT_EQ(picture.height, 2 * 16);
  for (std::size_t y = 0; y < image.height; ++y) {
    for (std::size_t x = 0; x < image.width; ++x) {
      const float weight = kDates.attention[y / 16][x / 16];
      // The scale runs from 255 by 66 to 8 in its red part, with even steps between them.
      const double red = weight < 0.5f ? 255 - 2 * weight * (255 - 66) : 66 - (2 * weight - 1) * 58;
      const auto found = static_cast<unsigned char>(image.rgb[3 * (y * image.width + x)]);
      EXPECT_NEAR(found, red, 0.51) << x << ", " << y;
    }
  }
  // Long ones have smaller squares: no picture grows without bounds.
  const std::vector<std::string> longest(1025, "a");
  const Picture wide = attention_picture({longest, {"b"}, {std::vector<float>(1025, 0.5f)}});
  EXPECT_EQ(wide.width, 3 * 1025);
  EXPECT_EQ(wide.height, 3);
  EXPECT_THROW(attention_picture({{}, {"a"}, {{}}}), Error);
  EXPECT_THROW(attention_picture({{"a"}, {"a"}, {{1, 0}}}), Error);
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
