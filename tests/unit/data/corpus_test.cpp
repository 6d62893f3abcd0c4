#include "data/corpus.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <set>

#include "data/word_tokenizer.h"
#include "unit/support/temporary_folder.h"

namespace sluice::data {
namespace {

using sluice::testing::error_of;
using sluice::testing::TemporaryFolder;
using Ids = std::vector<std::int32_t>;

std::string complaint(const std::function<void()>& body) { return error_of(body).what(); }

TEST(Corpus, ReadsTsv) {
  const TemporaryFolder folder;
  const auto pairs = read_tsv_pairs(folder.write("a.tsv", "how are you\tfine\r\n你好\t再见\n\t\n"));
  ASSERT_EQ(pairs.size(), 3u);
  EXPECT_EQ(pairs[0].source, "how are you");
  EXPECT_EQ(pairs[0].target, "fine");
  EXPECT_EQ(pairs[1].target, "再见");
  EXPECT_EQ(pairs[2].source, "");
}

TEST(Corpus, NamesTheLineOfAWrongColumnCount) {
  const TemporaryFolder folder;
  const std::string three =
      complaint([&] { read_tsv_pairs(folder.write("a", "a\tb\na\tb\tc\n")); });
  EXPECT_NE(three.find((folder / "a").string() + "' line 2 has 3 column"), std::string::npos)
      << three;
  const std::string one = complaint([&] { read_tsv_pairs(folder.write("a", "a b\n")); });
  EXPECT_NE(one.find("line 1 has 1 column"), std::string::npos) << one;
  EXPECT_NE(complaint([&] { read_tsv_pairs(folder.write("a", "")); }).find("is empty"),
            std::string::npos);
}

TEST(Corpus, ReadsAlignedFiles) {
  const TemporaryFolder folder;
  const auto en = folder.write("x.en", "one\ntwo\n");
  const auto pairs = read_aligned_pairs(en, folder.write("x.de", "eins\nzwei"));
  ASSERT_EQ(pairs.size(), 2u);
  EXPECT_EQ(pairs[1].source, "two");
  EXPECT_EQ(pairs[1].target, "zwei");

  const Error error =
      error_of([&] { read_aligned_pairs(en, folder.write("y.de", "eins\nzwei\ndrei\n")); });
  EXPECT_EQ(error.code(), ErrorCode::kFormat);
  EXPECT_NE(std::string(error.what()).find("x.en' has 2 lines but"), std::string::npos);
  EXPECT_NE(std::string(error.what()).find("y.de' has 3"), std::string::npos);
  const auto none = folder.write("none", "");
  EXPECT_NE(complaint([&] { read_aligned_pairs(none, none); }).find("empty"), std::string::npos);
}

class CorpusOfWords : public ::testing::Test {
 protected:
  const std::vector<TextPair> pairs_{
      {"a b", "c"}, {"", "c"}, {"a", " "}, {"a b a", "c c"}, {"zz", "c c c c"}};
  const std::unique_ptr<Tokenizer> source_ =
      train_word_tokenizer(std::vector<std::string>{"a a b"});
  const std::unique_ptr<Tokenizer> target_ = train_word_tokenizer(std::vector<std::string>{"c"});
};

TEST_F(CorpusOfWords, FiltersAndReports) {
  CorpusReport report;
  const PairCorpus corpus =
      make_corpus(pairs_, *source_, *target_, {2, 0}, "the examples", &report);
  EXPECT_EQ(corpus.source, (std::vector<Ids>{{4, 5}, {1}}));
  EXPECT_EQ(corpus.target, (std::vector<Ids>{{4}, {4, 4, 4, 4}}));
  EXPECT_EQ(report.kept, 2);
  EXPECT_EQ(report.empty, 2);
  EXPECT_EQ(report.too_long, 1);
  EXPECT_EQ(report.source_tokens, 3);
  EXPECT_EQ(report.target_tokens, 5);
  EXPECT_EQ(report.source_unknown, 1);
  EXPECT_EQ(report.target_unknown, 0);
  EXPECT_EQ(make_corpus(pairs_, *source_, *target_, {3, 2}, "the examples").size(), 2);
  EXPECT_EQ(make_corpus(pairs_, *source_, *target_, {}, "the examples").size(), 3);
}

TEST_F(CorpusOfWords, RefusesToBeEmpty) {
  const std::string why = complaint([&] {
    make_corpus(std::span(pairs_).subspan(1, 3), *source_, *target_, {2, 1}, "the examples");
  });
  EXPECT_EQ(why, "none of the examples is left: of 3, 1 were too long and 2 had an empty side");
  EXPECT_THROW(make_corpus({}, *source_, *target_, {}, "the examples"), Error);
}

TEST(Corpus, FingerprintSeesEveryId) {
  const PairCorpus base{{{4, 5}, {6}}, {{7}, {8}}};
  const std::vector<PairCorpus> all{
      base,
      {{{4, 5}, {6}}, {{7}, {9}}},
      {{{5, 4}, {6}}, {{7}, {8}}},
      {{{4}, {5, 6}}, {{7}, {8}}},
      {{{6}, {4, 5}}, {{8}, {7}}},
      {{{4, 5}, {6}, {}}, {{7}, {8}, {}}},
      {{{7}, {8}}, {{4, 5}, {6}}},
  };
  std::set<std::uint64_t> prints;
  for (const PairCorpus& corpus : all) prints.insert(corpus.fingerprint());
  EXPECT_EQ(prints.size(), all.size());
  EXPECT_EQ(base.fingerprint(), PairCorpus(base).fingerprint());
}

TEST(Corpus, SplitsByRuns) {
  const IndexSplit split = split_by_runs(23, 2, 5, 0);
  EXPECT_EQ(split.held_out, (std::vector<std::int64_t>{8, 9, 18, 19}));
  EXPECT_EQ(split.train.size(), 19u);
  EXPECT_EQ(split.train[8], 10);
  const IndexSplit large = split_by_runs(46644, 500, 20, 0);
  EXPECT_EQ(large.held_out.size(), 2000u);
  EXPECT_EQ(large.held_out.front(), 9500);

  EXPECT_THROW(split_by_runs(9499, 500, 20, 0), Error);
  EXPECT_THROW(split_by_runs(0, 1, 2, 0), Error);
  EXPECT_THROW(split_by_runs(10, 0, 2, 0), Error);
  EXPECT_THROW(split_by_runs(10, 1, 1, 0), Error);
  EXPECT_THROW(split_by_runs(10, 1, 2, 3), Error);
  EXPECT_THROW(split_by_runs(10, 1, 2, -1), Error);
}

TEST(Corpus, FoldsAreDisjointAndCoverAll) {
  for (const auto& [count, run, every] :
       std::vector<std::array<std::int64_t, 3>>{{23, 2, 5}, {7, 1, 7}, {100, 9, 12}, {64, 3, 2}}) {
    std::vector<std::int64_t> held_out;
    for (std::int64_t which = 1; which <= every; ++which) {
      const IndexSplit split = split_by_runs(count, run, every, which);
      EXPECT_FALSE(split.held_out.empty()) << which;
      EXPECT_EQ(std::ssize(split.train) + std::ssize(split.held_out), count);
      EXPECT_EQ(split.held_out.front(), (which - 1) * run);
      held_out.insert(held_out.end(), split.held_out.begin(), split.held_out.end());
    }
    std::sort(held_out.begin(), held_out.end());
    std::vector<std::int64_t> all(static_cast<std::size_t>(count));
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(held_out, all) << count;
  }
  EXPECT_EQ(split_by_runs(23, 2, 5, 0).held_out, split_by_runs(23, 2, 5, 5).held_out);
  // The first fold is refused where the last would have nothing to hold out.
  EXPECT_THROW(split_by_runs(8, 2, 5, 1), Error);
}

TEST(Corpus, SelectsInOrder) {
  const std::vector<std::string> items{"a", "b", "c"};
  EXPECT_EQ(select(std::span(items), std::vector<std::int64_t>{2, 0}),
            (std::vector<std::string>{"c", "a"}));
}

}  // namespace
}  // namespace sluice::data
