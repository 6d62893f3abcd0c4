#include "training/streamed_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>

#include "training/example_sample.h"
#include "training/example_store.h"
#include "training/language_model_data.h"
#include "training/seq2seq_data.h"
#include "training/stored_examples.h"
#include "unit/support/temporary_folder.h"
#include "unit/training/streamed_comparison.h"

namespace sluice::training {
namespace {

using sluice::testing::error_of;
using sluice::testing::TemporaryFolder;
using ::testing::HasSubstr;

/// Lines of a few words; some empty, some long.
std::string random_line(std::mt19937& random) {
  std::string line;
  for (std::uint32_t words = random() % 9; words > 0; --words) {
    line += std::string(1, static_cast<char>('a' + random() % 20)) + (words > 1 ? " " : "");
  }
  return line;
}

class Streamed : public ::testing::Test {
 protected:
  Streamed() {
    std::mt19937 random(7);
    std::string pairs, texts;
    for (int i = 0; i < 500; ++i) {
      pairs += random_line(random) + "\t" + random_line(random) + "\n";
      texts += random_line(random) + "\n";
    }
    folder_.write("train.tsv", pairs);
    folder_.write("texts.txt", texts);
    config_.output.directory = (folder_ / "run").string();
    config_.tokenizer.kind = "words";
    config_.tokenizer.min_count = 3;
    config_.data.hold_out_run = 3;
    config_.data.hold_out_every = 7;
    config_.data.max_target_tokens = 6;
  }

  void use_texts(std::int64_t bptt) {
    config_.model.kind = "language_model";
    config_.data.text = (folder_ / "texts.txt").string();
    config_.loop.bptt = bptt;
    config_.loop.max_rows = 11;
  }
  void use_pairs() {
    config_.data.tsv = (folder_ / "train.tsv").string();
    config_.data.max_source_tokens = 7;
  }

  TemporaryFolder folder_;
  TrainConfig config_;
};

TEST_F(Streamed, PairsAreThoseThatAreReadIntoMemory) {
  use_pairs();
  expect_same(stream_seq2seq_data(config_, nullptr),
              make_train_data(config_, read_text_data(config_.data)));
}

TEST_F(Streamed, AlignedFilesAndSegmentersToo) {
  std::string source, target;
  std::mt19937 random(8);
  for (int i = 0; i < 300; ++i) {
    source += random_line(random) + "\n";
    target += random_line(random) + "\n";
  }
  folder_.write("s", source);
  folder_.write("t", target);
  config_.data.source = (folder_ / "s").string();
  config_.data.target = (folder_ / "t").string();
  config_.data.source_segmenter = "sed 's/a/a a/g'";
  expect_same(stream_seq2seq_data(config_, nullptr),
              make_train_data(config_, read_text_data(config_.data)));
  folder_.write("t", target + "one more\n");
  const Error error = error_of([&] { stream_seq2seq_data(config_, nullptr); });
  EXPECT_EQ(error.code(), ErrorCode::kFormat);
  EXPECT_THAT(error.what(), HasSubstr("has more lines than the 300 of"));
}

TEST_F(Streamed, TextsAreThoseThatAreReadIntoMemory) {
  for (const std::int64_t bptt : {0, 5}) {
    use_texts(bptt);
    expect_same(stream_language_model_data(config_, nullptr),
                make_language_model_data(config_, read_language_model_text(config_)));
  }
}

TEST_F(Streamed, FilesAreReadAgainOnlyIfTheyChanged) {
  use_pairs();
  const TrainData first = stream_seq2seq_data(config_, nullptr);
  const auto index = folder_ / "run/prepared/train.index";
  const auto written = std::filesystem::last_write_time(index) - std::chrono::hours(1);
  std::filesystem::last_write_time(index, written);
  EXPECT_EQ(stream_seq2seq_data(config_, &first.tokenizers).train->fingerprint(),
            first.train->fingerprint());
  EXPECT_EQ(std::filesystem::last_write_time(index), written);

  // Other limits, other files, a file that isn't whole.
  config_.data.max_target_tokens = 5;
  EXPECT_NE(stream_seq2seq_data(config_, &first.tokenizers).train->fingerprint(),
            first.train->fingerprint());
  std::filesystem::resize_file(folder_ / "run/prepared/train.ids", 40);
  const TrainData mended = stream_seq2seq_data(config_, &first.tokenizers);
  folder_.write("train.tsv", "a\tb\na b\tb\nc\td\na\td\nb\tc\nb\ta\nc\tc\nd\td\n");
  config_.data.hold_out_run = 1;
  EXPECT_LT(stream_seq2seq_data(config_, &first.tokenizers).train->size(), mended.train->size());
}

TEST_F(Streamed, DamageIsFoundBeforeItIsTrainedOn) {
  use_pairs();
  const TrainData first = stream_seq2seq_data(config_, nullptr);
  const auto damage = [&](const char* name, std::streamoff at, std::int32_t value) {
    std::fstream file(folder_ / name, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(at);
    file.write(reinterpret_cast<const char*>(&value), sizeof value);
  };
  damage("run/prepared/train.ids", 8, 1 << 30);
  EXPECT_THAT(error_of([&] {
                stream_seq2seq_data(config_, &first.tokenizers).train->fingerprint();
              }).what(),
              HasSubstr("damaged"));
  damage("run/prepared/train.index", 16 * 3, -1);
  damage("run/prepared/train.index", 16 * 3 + 4, -1);
  EXPECT_THAT(
      error_of([&] { stream_seq2seq_data(config_, &first.tokenizers).train->lengths(); }).what(),
      HasSubstr("damaged at example 3"));
}

TEST_F(Streamed, BadLinesAreRefusedWithTheirPlace) {
  use_pairs();
  folder_.write("train.tsv", "a\tb\nno tab\n");
  const Error error = error_of([&] { stream_seq2seq_data(config_, nullptr); });
  EXPECT_EQ(error.code(), ErrorCode::kFormat);
  EXPECT_THAT(error.what(), HasSubstr("line 2 has 1 column;"));
  config_.data.tsv = "-";
  EXPECT_THAT(error_of([&] { stream_seq2seq_data(config_, nullptr); }).what(),
              HasSubstr("standard input"));
}

/// Examples of random ids, some of them without any, one larger than what is read at a time.
std::vector<ExampleIds> random_examples(std::size_t count) {
  std::mt19937 random(3);
  std::vector<ExampleIds> examples(count);
  for (std::size_t i = 0; i < count; ++i) {
    examples[i].source.resize(i == count / 2 ? 300'000 : random() % 20);
    examples[i].target.resize(random() % 20);
    for (auto* side : {&examples[i].source, &examples[i].target}) {
      for (std::int32_t& id : *side) id = static_cast<std::int32_t>(random() % 1000);
    }
  }
  return examples;
}

ExampleStore stored(const std::filesystem::path& path, const std::vector<ExampleIds>& examples) {
  ExampleStoreWriter writer(path);
  for (const ExampleIds& example : examples) writer.add(example);
  data::CorpusReport report;
  report.kept = std::ssize(examples);
  writer.finish("key", report);
  return ExampleStore::open(path, "key").value();
}

TEST(ExampleStore, GivesAllExamplesInOrderAndOneByOne) {
  const TemporaryFolder folder;
  const std::vector<ExampleIds> examples = random_examples(70'000);  // two pieces of the index
  const ExampleStore store = stored(folder / "train", examples);
  std::int64_t next = 0;
  store.for_each([&](std::int64_t example, std::span<const std::int32_t> source,
                     std::span<const std::int32_t> target) {
    ASSERT_EQ(example, next++);
    const ExampleIds& expected = examples[static_cast<std::size_t>(example)];
    ASSERT_TRUE(std::ranges::equal(source, expected.source)) << example;
    ASSERT_TRUE(std::ranges::equal(target, expected.target)) << example;
  });
  EXPECT_EQ(next, 70'000);
  for (const std::int64_t example : {0, 34'999, 35'000, 35'001, 69'999}) {
    const ExampleIds ids = store.read(example);
    EXPECT_EQ(ids.source, examples[static_cast<std::size_t>(example)].source);
    EXPECT_EQ(ids.target, examples[static_cast<std::size_t>(example)].target);
  }
}

/// How often this process has asked the system for bytes of files; nothing where it doesn't tell.
std::optional<std::int64_t> reads_so_far() {
  std::ifstream counts("/proc/self/io");
  std::string name;
  for (std::int64_t value = 0; counts >> name >> value;) {
    if (name == "syscr:") return value;
  }
  return std::nullopt;
}

// A call an example would make a run of millions wait for its start.
TEST(ExampleStore, IsReadInPieces) {
  const TemporaryFolder folder;
  const auto store =
      std::make_shared<const ExampleStore>(stored(folder / "train", random_examples(5'000)));
  const auto before = reads_so_far();
  if (!before) GTEST_SKIP() << "this system doesn't count a process's reads";
  StoredPairs(store, 1000, 1000).fingerprint();
  StoredTexts(store, 1000).fingerprint();
  EXPECT_LT(*reads_so_far() - *before, 40);
}

data::TextPair numbered(int i) { return {std::to_string(i), ""}; }

TEST(ExampleSample, KeepsAllOfFewInTheirOrder) {
  ExampleSample<data::TextPair> sample(10, 1);
  for (int i = 0; i < 10; ++i) sample.add(numbered(i));
  const auto pairs = sample.take();
  ASSERT_EQ(pairs.size(), 10U);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(pairs[static_cast<std::size_t>(i)].source, std::to_string(i));
  }
}

TEST(ExampleSample, HoldsNoMoreAndEachIsAsLikely) {
  std::vector<int> drawn(40);
  constexpr int kRuns = 2000;
  for (std::uint64_t seed = 0; seed < kRuns; ++seed) {
    ExampleSample<data::TextPair> sample(10, seed);
    for (int i = 0; i < 40; ++i) sample.add(numbered(i));
    const auto pairs = sample.take();
    ASSERT_EQ(pairs.size(), 10U);
    int before = -1;
    for (const auto& pair : pairs) {
      const int number = std::stoi(pair.source);
      EXPECT_GT(number, before);
      before = number;
      ++drawn[static_cast<std::size_t>(number)];
    }
  }
  // A quarter each, within five standard deviations of a binomial distribution.
  for (const int count : drawn) EXPECT_NEAR(count, kRuns / 4, 5 * std::sqrt(kRuns * 0.25 * 0.75));
}

}  // namespace
}  // namespace sluice::training
