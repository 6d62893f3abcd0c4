#include "data/label_spans.h"

#include <gtest/gtest.h>

#include <sstream>

#include "sluice/error.h"

namespace sluice::data {
namespace {

std::vector<std::string> words(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> list;
  for (std::string word; stream >> word;) list.push_back(word);
  return list;
}

/// "per:0-2 loc:3-4"
std::string spans(const std::string& labels) {
  std::string text;
  for (const LabelSpan& span : spans_of(words(labels))) {
    if (!text.empty()) text += ' ';
    text += span.type + ':' + std::to_string(span.begin) + '-' + std::to_string(span.end);
  }
  return text;
}

TEST(LabelSpans, OfBioAndBioes) {
  EXPECT_EQ(spans(""), "");
  EXPECT_EQ(spans("O O"), "");
  EXPECT_EQ(spans("B-per I-per O B-loc"), "per:0-2 loc:3-4");
  EXPECT_EQ(spans("B-per B-per I-per"), "per:0-1 per:1-3");
  EXPECT_EQ(spans("B-per E-per S-loc O B-a I-a E-a"), "per:0-2 loc:2-3 a:4-7");
  EXPECT_EQ(spans("S-per S-per"), "per:0-1 per:1-2");
  EXPECT_EQ(spans("B-creative-work I-creative-work"), "creative-work:0-2");
}

TEST(LabelSpans, OfBrokenOnes) {
  EXPECT_EQ(spans("I-per I-per O I-loc"), "per:0-2 loc:3-4");  // as BIO was at first: IO
  EXPECT_EQ(spans("B-per I-loc I-loc"), "per:0-1 loc:1-3");
  EXPECT_EQ(spans("E-per E-per I-per"), "per:0-1 per:1-2 per:2-3");
  EXPECT_EQ(spans("B I O"), "_:0-2");
  EXPECT_EQ(spans("S-x I-x"), "x:0-1 x:1-2");
}

TEST(LabelSpans, AreSpelledInEitherScheme) {
  const auto respelled = [](const std::string& labels, LabelScheme scheme) {
    return respell_labels(words(labels), scheme);
  };
  EXPECT_EQ(respelled("B-a I-a I-a O B-b B-c I-c", LabelScheme::kBioes),
            words("B-a I-a E-a O S-b B-c E-c"));
  EXPECT_EQ(respelled("B-a I-a E-a O S-b B-c E-c", LabelScheme::kBio),
            words("B-a I-a I-a O B-b B-c I-c"));
  EXPECT_EQ(respelled("I-a I-a I-b", LabelScheme::kBio), words("B-a I-a B-b"));
  EXPECT_EQ(respelled("noun verb", LabelScheme::kAsIs), words("noun verb"));
}

TEST(LabelSpans, SchemesHaveNames) {
  EXPECT_EQ(parse_label_scheme("as-is"), LabelScheme::kAsIs);
  EXPECT_EQ(parse_label_scheme("bio"), LabelScheme::kBio);
  EXPECT_EQ(parse_label_scheme("bioes"), LabelScheme::kBioes);
  EXPECT_THROW(parse_label_scheme("iob"), Error);
  for (const char* label : {"O", "B-x", "I-x", "E-x", "S-x-y"}) EXPECT_TRUE(is_span_label(label));
  for (const char* label : {"", "o", "B", "B-", "b-x", "noun", "U-x"}) {
    EXPECT_FALSE(is_span_label(label)) << label;
  }
}

}  // namespace
}  // namespace sluice::data
