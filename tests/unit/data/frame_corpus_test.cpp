#include "data/frame_corpus.h"

#include <gtest/gtest.h>

#include "data/labelled_corpus.h"
#include "sluice/error.h"

namespace sluice::data {
namespace {

using Ints = std::vector<std::int32_t>;
using Floats = std::vector<float>;

FrameSequences sequences(std::int64_t width, const std::vector<Floats>& all) {
  FrameSequences result;
  result.width = width;
  for (const Floats& values : all) {
    result.names.push_back("s" + std::to_string(result.names.size()));
    result.values.insert(result.values.end(), values.begin(), values.end());
    result.first_frame.push_back(result.first_frame.back() +
                                 static_cast<std::int64_t>(values.size()) / width);
  }
  return result;
}

FrameCorpus corpus_with_labels() {
  FrameCorpus corpus;
  corpus.frames = sequences(2, {{1, 2, 3, 4}, {}, {5, 6}});
  corpus.labels = {{7, 8}, {}, {9}};
  return corpus;
}

TEST(FrameCorpus, BatchesAreTimeMajorAndPaddedWithZeros) {
  const std::vector<std::int64_t> rows{2, 0};
  const Batch batch = corpus_with_labels().assemble(rows);
  EXPECT_EQ(batch.rows, 2);
  EXPECT_EQ(batch.source_time, 2);
  EXPECT_EQ(batch.target_time, 2);
  EXPECT_EQ(batch.features, (Floats{5, 6, 1, 2, 0, 0, 3, 4}));
  EXPECT_EQ(batch.target_out, (Ints{9, 7, 0, 8}));
  EXPECT_EQ(batch.source_lengths, (Ints{1, 2}));
  EXPECT_EQ(batch.target_lengths, (Ints{1, 2}));
  EXPECT_EQ(batch.global_row, rows);
  EXPECT_TRUE(batch.values.empty() && batch.source.empty());
}

TEST(FrameCorpus, TargetsMayBeOneASequenceOrValuesOrNone) {
  FrameCorpus corpus = corpus_with_labels();
  corpus.labels.clear();
  const std::vector<std::int64_t> rows{0, 1};
  const Batch none = corpus.assemble(rows);
  EXPECT_EQ(none.target_time, 0);
  EXPECT_TRUE(none.target_lengths.empty() && none.target_out.empty() && none.values.empty());
  EXPECT_EQ(none.source_lengths, (Ints{2, 0}));
  corpus.values = sequences(3, {{1, 2, 3}, {4, 5, 6}, {7, 8, 9}});
  const Batch values = corpus.assemble(rows);
  EXPECT_EQ(values.target_time, 1);
  EXPECT_EQ(values.values, (Floats{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(values.target_lengths, (Ints{1, 1}));
}

TEST(FrameCorpus, HasAResetForEachFrameOrNone) {
  FrameCorpus corpus = corpus_with_labels();
  EXPECT_TRUE(corpus.assemble(std::vector<std::int64_t>{2, 0}).resets.empty());
  corpus.resets = {{0, 1}, {}, {1}};
  EXPECT_EQ(corpus.assemble(std::vector<std::int64_t>{2, 0}).resets, (Ints{1, 0, 0, 1}));
  EXPECT_EQ(corpus.select(std::vector<std::int64_t>{2, 0}).resets,
            (std::vector<Ints>{{1}, {0, 1}}));
  EXPECT_NE(corpus.fingerprint(), corpus_with_labels().fingerprint());
  FrameCorpus other = corpus;
  other.resets[0][0] = 1;
  EXPECT_NE(other.fingerprint(), corpus.fingerprint());
}

TEST(FrameCorpus, SelectsAndIsToldApartByAnything) {
  const FrameCorpus corpus = corpus_with_labels();
  const FrameCorpus chosen = corpus.select(std::vector<std::int64_t>{2, 0});
  EXPECT_EQ(chosen.frames.values, (Floats{5, 6, 1, 2, 3, 4}));
  EXPECT_EQ(chosen.labels, (std::vector<Ints>{{9}, {7, 8}}));
  EXPECT_NE(chosen.fingerprint(), corpus.fingerprint());
  FrameCorpus other = corpus;
  other.labels[0][1] = 6;
  EXPECT_NE(other.fingerprint(), corpus.fingerprint());
  other = corpus;
  other.frames.values[3] = 4.5F;
  EXPECT_NE(other.fingerprint(), corpus.fingerprint());
  EXPECT_THROW(corpus.assemble(std::vector<std::int64_t>{3}), Error);
  EXPECT_THROW(corpus.assemble(std::vector<std::int64_t>{}), Error);
}

TEST(LabelledCorpus, ALabelIsATargetOfOneStep) {
  LabelledCorpus corpus;
  corpus.source = {{4, 5, 6}, {7}};
  corpus.labels = {1, 0};
  EXPECT_EQ(corpus.lengths()[0].source, 3);
  EXPECT_EQ(corpus.lengths()[0].target, 1);
  const Batch batch = corpus.assemble(std::vector<std::int64_t>{1, 0});
  EXPECT_EQ(batch.source, (Ints{7, 4, 0, 5, 0, 6}));
  EXPECT_EQ(batch.target_out, (Ints{0, 1}));
  EXPECT_EQ(batch.target_lengths, (Ints{1, 1}));
  EXPECT_EQ(batch.target_time, 1);
  LabelledCorpus other = corpus;
  other.labels[1] = 1;
  EXPECT_NE(other.fingerprint(), corpus.fingerprint());
  other.labels.clear();
  EXPECT_EQ(other.lengths()[0].target, 0);
  EXPECT_EQ(other.assemble(std::vector<std::int64_t>{0}).target_time, 0);
}

}  // namespace
}  // namespace sluice::data
