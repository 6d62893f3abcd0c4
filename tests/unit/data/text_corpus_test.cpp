#include "data/text_corpus.h"

#include <gtest/gtest.h>

#include <numeric>

#include "data/batches.h"
#include "data/shuffle.h"
#include "data/tokenizer.h"
#include "unit/support/temporary_folder.h"

namespace sluice::data {
namespace {

using Ids = std::vector<std::int32_t>;

std::vector<Ids> random_texts(SplitMix& random, std::int64_t count) {
  std::vector<Ids> texts(static_cast<std::size_t>(count));
  for (Ids& text : texts) {
    text.resize(random.below(9));
    for (std::int32_t& id : text) id = static_cast<std::int32_t>(kFirstPieceId + random.below(20));
  }
  return texts;
}

TEST(TextCorpus, FeedsBosAndWantsEos) {
  const TextCorpus corpus({{5, 6, 7}, {8}, {}});
  const std::vector<std::int64_t> rows{1, 0, 2};
  const Batch batch = corpus.assemble(rows);
  EXPECT_EQ(batch.rows, 3);
  EXPECT_EQ(batch.source_time, 0);
  EXPECT_EQ(batch.target_time, 4);
  EXPECT_EQ(batch.target_in, (Ids{2, 2, 2, 8, 5, 0, 0, 6, 0, 0, 7, 0}));
  EXPECT_EQ(batch.target_out, (Ids{8, 5, 3, 3, 6, 0, 0, 7, 0, 0, 3, 0}));
  EXPECT_EQ(batch.target_lengths, (Ids{2, 4, 1}));
  EXPECT_EQ(batch.global_row, rows);
  const auto lengths = corpus.lengths();
  EXPECT_EQ(lengths[0].target, 4);
  EXPECT_EQ(lengths[0].source, 0);
  EXPECT_THROW(corpus.assemble(std::vector<std::int64_t>{3}), Error);
  EXPECT_THROW(corpus.assemble({}), Error);
}

TEST(TextCorpus, FingerprintSeesWhereTextsEnd) {
  EXPECT_NE(TextCorpus({{5, 6}, {7}}).fingerprint(), TextCorpus({{5}, {6, 7}}).fingerprint());
  EXPECT_EQ(TextCorpus({{5, 6}, {7}}).fingerprint(), TextCorpus({{5, 6}, {7}}).fingerprint());
}

TEST(TextCorpus, BringsItsVectorsAlong) {
  const TextCorpus corpus({{5, 6, 7}, {8}, {}}, {2, {1, 2, 3, 4, 5, 6}});
  const Batch batch = corpus.assemble(std::vector<std::int64_t>{2, 0});
  EXPECT_EQ(batch.source_time, 1);
  EXPECT_EQ(batch.features, (std::vector<float>{5, 6, 1, 2}));
  EXPECT_EQ(batch.source_tokens(), 0);
  const TextCorpus others({{5, 6, 7}, {8}, {}}, {2, {1, 2, 3, 4, 5, 7}});
  EXPECT_NE(corpus.fingerprint(), others.fingerprint());
  EXPECT_THROW(TextCorpus({{5, 6, 7}, {8}}, {2, {1, 2, 3, 4, 5, 6}}), Error);
}

TEST(StretchCorpus, StandsSideBySide) {
  // With an end each, eight tokens: two stretches of four.
  const std::vector<Ids> texts{{5, 6}, {7}, {8, 9}};
  const StretchCorpus corpus(texts, 2, 3);
  EXPECT_EQ(corpus.rows_in_order(), 2);
  EXPECT_EQ(corpus.size(), 4);
  const Batch first = corpus.assemble(std::vector<std::int64_t>{0, 1});
  EXPECT_EQ(first.target_in, (Ids{2, 7, 5, 2, 6, 8}));
  EXPECT_EQ(first.target_out, (Ids{5, 3, 6, 8, 3, 9}));
  EXPECT_EQ(first.source, (Ids{0, 0}));
  EXPECT_EQ(first.source_time, 1);
  const Batch second = corpus.assemble(std::vector<std::int64_t>{2, 3});
  EXPECT_EQ(second.target_in, (Ids{2, 9}));
  EXPECT_EQ(second.target_out, (Ids{7, 3}));
  EXPECT_EQ(second.source, (Ids{1, 2}));
  EXPECT_EQ(second.source_tokens(), 0);
  EXPECT_THROW(corpus.assemble(std::vector<std::int64_t>{1, 0}), Error);
  EXPECT_THROW(corpus.assemble(std::vector<std::int64_t>{1, 2}), Error);
}

// Whatever the sizes, the batches of an epoch hold every token once, each after the one before it.
TEST(StretchCorpus, HoldsEveryTokenOnce) {
  SplitMix random(11);
  for (int turn = 0; turn < 200; ++turn) {
    const std::vector<Ids> texts = random_texts(random, 1 + random.below(20));
    Ids text;
    for (const Ids& one : texts) {
      text.insert(text.end(), one.begin(), one.end());
      text.push_back(kEosId);
    }
    const auto stretches = static_cast<std::int64_t>(1 + random.below(12));
    const auto steps = static_cast<std::int64_t>(1 + random.below(7));
    const StretchCorpus corpus(texts, stretches, steps);
    const auto rows = static_cast<std::size_t>(corpus.rows_in_order());
    EXPECT_EQ(corpus.rows_in_order(), std::min(stretches, std::ssize(text)));

    std::vector<Ids> fed(rows), wanted(rows);
    const BatchSchedule schedule(corpus.lengths(), in_their_order(corpus, {.max_tokens = 1}), 1);
    for (const BatchRows& examples : schedule.batches(random.below(3))) {
      const Batch batch = corpus.assemble(examples);
      ASSERT_EQ(batch.rows, corpus.rows_in_order());
      EXPECT_LE(batch.target_time, steps);
      for (std::size_t r = 0; r < rows; ++r) {
        EXPECT_EQ(batch.source[r], fed[r].empty() ? 0 : static_cast<std::int32_t>(r) + 1);
        const auto length = static_cast<std::size_t>(batch.target_lengths[r]);
        for (std::size_t t = 0; t < length; ++t) {
          fed[r].push_back(batch.target_in[t * rows + r]);
          wanted[r].push_back(batch.target_out[t * rows + r]);
        }
      }
    }
    Ids all_fed, all_wanted;
    for (std::size_t r = 0; r < rows; ++r) {
      EXPECT_LE(wanted[0].size() - wanted[r].size(), 1u);
      all_fed.insert(all_fed.end(), fed[r].begin(), fed[r].end());
      all_wanted.insert(all_wanted.end(), wanted[r].begin(), wanted[r].end());
    }
    EXPECT_EQ(all_wanted, text);
    for (std::size_t i = 0; i < text.size(); ++i) {
      const bool begins = i == 0 || text[i - 1] == kEosId;
      EXPECT_EQ(all_fed[i], begins ? kBosId : text[i - 1]);
    }
  }
}

TEST(StretchCorpus, FingerprintSeesTextAndCut) {
  const std::vector<Ids> texts{{5, 6}, {7}}, other{{5}, {6, 7}};
  const std::uint64_t one = StretchCorpus(texts, 2, 2).fingerprint();
  EXPECT_EQ(one, StretchCorpus(texts, 2, 2).fingerprint());
  EXPECT_NE(one, StretchCorpus(other, 2, 2).fingerprint());
  EXPECT_NE(one, StretchCorpus(texts, 3, 2).fingerprint());
  EXPECT_NE(one, StretchCorpus(texts, 2, 3).fingerprint());
}

}  // namespace
}  // namespace sluice::data
