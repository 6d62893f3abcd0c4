#include "data/conll.h"

#include <gtest/gtest.h>

#include "unit/support/temporary_folder.h"

namespace sluice::data {
namespace {

using Words = std::vector<std::string>;

class ConllTest : public ::testing::Test {
 protected:
  std::vector<TaggedSentence> read(std::string_view text, const ConllOptions& options = {}) {
    return read_conll(folder_.write("train.conll", text), options);
  }
  void refuse(std::string_view text, const std::string& said, const ConllOptions& options = {}) {
    const Error error = testing::error_of([&] { read(text, options); });
    EXPECT_EQ(error.code(), ErrorCode::kFormat) << error.what();
    const std::string what = error.what();
    EXPECT_NE(what.find("train.conll'" + said), std::string::npos) << what << "\nlacks " << said;
    EXPECT_EQ(what.find('\n'), std::string::npos) << what;
  }

  testing::TemporaryFolder folder_;
};

TEST_F(ConllTest, SentencesStandBetweenBlankLines) {
  const auto sentences = read("\n\t\nJohn\tB-per\nlives\tO\n\t\n \t \n\nhere\tO\n\nParis\tB-loc");
  ASSERT_EQ(sentences.size(), 3u);
  EXPECT_EQ(sentences[0].tokens, (Words{"John", "lives"}));
  EXPECT_EQ(sentences[0].labels, (Words{"B-per", "O"}));
  EXPECT_EQ(sentences[0].first_line, 3);
  EXPECT_EQ(sentences[1].tokens, (Words{"here"}));
  EXPECT_EQ(sentences[1].first_line, 8);
  EXPECT_EQ(sentences[2].labels, (Words{"B-loc"}));
}

TEST_F(ConllTest, TakesTheColumnsAskedFor) {
  const std::string text =
      "-DOCSTART- -X- O O\n\nEU NNP  I-NP B-ORG\r\nrejects VBZ I-VP O\r\n-DOCSTART- -X- O O\nPeter "
      "NNP I-NP B-PER\n";
  auto sentences = read(text);
  ASSERT_EQ(sentences.size(), 2u);
  EXPECT_EQ(sentences[0].tokens, (Words{"EU", "rejects"}));
  EXPECT_EQ(sentences[0].labels, (Words{"B-ORG", "O"}));
  sentences = read(text, {.token_column = -4, .label_column = 2});
  EXPECT_EQ(sentences[0].labels, (Words{"NNP", "VBZ"}));
  EXPECT_EQ(sentences[1].tokens, (Words{"Peter"}));
  sentences = read(text, {.label_column = 0});
  EXPECT_TRUE(sentences[0].labels.empty());
  EXPECT_EQ(read("one\ntwo\n", {.label_column = 0})[0].tokens, (Words{"one", "two"}));
}

TEST_F(ConllTest, RespellsLabels) {
  const auto sentences =
      read("a\tB-x\nb\tI-x\nc\tB-y\n\nd\tI-x\n", {.scheme = LabelScheme::kBioes});
  EXPECT_EQ(sentences[0].labels, (Words{"B-x", "E-x", "S-y"}));
  EXPECT_EQ(sentences[1].labels, (Words{"S-x"}));
  refuse("a\tB-x\nb\tnoun\n", " line 2: the label 'noun' is neither",
         {.scheme = LabelScheme::kBio});
}

TEST_F(ConllTest, RefusesWhatIsNoTable) {
  refuse("", " holds no sentence");
  refuse(" \n\t\n-DOCSTART-\tO\n", " holds no sentence");
  refuse("a\tO\nb\tO\tx\n", " line 2: has 3 columns, but the first line of tokens has 2");
  refuse("a\tO\nb O\n", " line 2: has 1 column,");
  refuse("a O\n\nb\n", " line 3: has 1 column,");
  refuse("a\tO\n\tO\n", " line 2: the token is empty");
  refuse("a\tO\nb\t\n", " line 2: the label is empty");
  refuse("a\tO\nNew York\tO\n", " line 2: the token 'New York' holds white space");
  refuse("a\tO\n", " line 1: has 2 columns, so there is no column 3 of labels (data.label_column)",
         {.label_column = 3});
  refuse("a\tO\n", " line 1: has 2 columns, so there is no column -3 of tokens",
         {.token_column = -3});
  refuse("a\tO\n\xff\tO\n", " line 2 is not valid UTF-8");
  EXPECT_THROW(read("a\tO\n", {.token_column = 0}), Error);
  EXPECT_THROW(read_conll(folder_ / "none.conll"), Error);
}

}  // namespace
}  // namespace sluice::data
