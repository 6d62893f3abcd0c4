#include "data/tagged_examples.h"

#include <gtest/gtest.h>

#include "data/word_tokenizer.h"
#include "unit/support/temporary_folder.h"

namespace sluice::data {
namespace {

using Ids = std::vector<std::int32_t>;

class TaggedExamplesTest : public ::testing::Test {
 protected:
  TaggedExamplesTest() {
    const std::vector<std::string> lines{"a a a b b c"};  // ids 4, 5, 6
    tokenizer_ = train_word_tokenizer(lines);
  }

  TaggedExamples make(std::int64_t max_tokens = 0) {
    return make_tagged_examples(sentences_, *tokenizer_, labels_, max_tokens, "dev.conll",
                                &report_);
  }

  std::vector<TaggedSentence> sentences_{
      {{"a", "new", "c"}, {"B", "O", "O"}, 1}, {{"b"}, {"O"}, 5}, {{"c", "b"}, {"I", "B"}, 7}};
  std::unique_ptr<Tokenizer> tokenizer_;
  Labels labels_{{"B", "I", "O"}};
  TaggedReport report_;
};

TEST_F(TaggedExamplesTest, BecomeBatchesWithALabelForEachToken) {
  const TaggedExamples examples = make();
  EXPECT_EQ(report_.kept, 3);
  EXPECT_EQ(report_.tokens, 6);
  EXPECT_EQ(report_.unknown, 1);
  EXPECT_EQ(examples.lengths()[0].source, 3);
  EXPECT_EQ(examples.lengths()[0].target, 3);
  const std::vector<std::int64_t> rows{2, 0};
  const Batch batch = examples.assemble(rows);
  EXPECT_EQ(batch.source_time, 3);
  EXPECT_EQ(batch.target_time, 3);
  EXPECT_EQ(batch.source, (Ids{6, 4, 5, kUnknownId, kPadId, 6}));
  EXPECT_EQ(batch.target_out, (Ids{1, 0, 0, 2, 0, 2}));
  EXPECT_EQ(batch.source_lengths, (Ids{2, 3}));
  EXPECT_EQ(batch.target_lengths, batch.source_lengths);
  EXPECT_TRUE(batch.target_in.empty());
  EXPECT_EQ(batch.global_row, rows);
}

TEST_F(TaggedExamplesTest, NeedNoLabels) {
  const TaggedExamples examples({{4, 5}, {6}});
  EXPECT_EQ(examples.lengths()[0].target, 0);
  const Batch batch = examples.assemble(std::vector<std::int64_t>{0, 1});
  EXPECT_EQ(batch.source, (Ids{4, 6, 5, 0}));
  EXPECT_EQ(batch.target_time, 0);
  EXPECT_TRUE(batch.target_out.empty());
  EXPECT_THROW(TaggedExamples({{4, 5}}, {{0}}), Error);
}

TEST_F(TaggedExamplesTest, LongSentencesAreLeftOut) {
  EXPECT_EQ(make(2).size(), 2);
  EXPECT_EQ(report_.too_long, 1);
  sentences_.resize(1);
  EXPECT_THROW(make(2), Error);
}

TEST_F(TaggedExamplesTest, UnknownLabelsAreRefusedWithTheirLine) {
  sentences_[2].labels[1] = "B-new";
  const Error error = testing::error_of([&] { make(); });
  EXPECT_EQ(error.code(), ErrorCode::kFormat);
  const std::string what = error.what();
  EXPECT_NE(what.find("'dev.conll' line 8: the label 'B-new'"), std::string::npos) << what;
  EXPECT_NE(what.find("B, I, O"), std::string::npos) << what;
}

TEST_F(TaggedExamplesTest, FingerprintsTellThemApart) {
  const std::uint64_t before = make().fingerprint();
  EXPECT_EQ(make().fingerprint(), before);
  sentences_[2].labels[1] = "O";
  EXPECT_NE(make().fingerprint(), before);
}

TEST_F(TaggedExamplesTest, LabelsAreInByteOrder) {
  EXPECT_EQ(labels_of(sentences_).names(), (std::vector<std::string>{"B", "I", "O"}));
}

TEST_F(TaggedExamplesTest, TokensAreSingleWords) {
  const std::vector<std::string> good{"a", "x\xC2\xA0y"}, bad{"a b"}, empty{""};
  EXPECT_EQ(encode_tokens(good, *tokenizer_), (Ids{4, kUnknownId}));
  EXPECT_THROW(encode_tokens(bad, *tokenizer_), Error);
  EXPECT_THROW(encode_tokens(empty, *tokenizer_), Error);
}

}  // namespace
}  // namespace sluice::data
