#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <random>

#include "data/frame_corpus.h"
#include "training/classifier_data.h"
#include "training/features_data.h"
#include "training/streamed_data.h"
#include "training/tagger_data.h"
#include "unit/support/npy_file.h"
#include "unit/support/temporary_folder.h"
#include "unit/support/zip_file.h"
#include "unit/training/streamed_comparison.h"

namespace sluice::training {
namespace {

using sluice::testing::error_of;
using sluice::testing::npy_file;
using sluice::testing::TemporaryFolder;
using sluice::testing::ZipMember;
using ::testing::HasSubstr;

/// Examples with labels or values, read into memory and streamed.
class StreamedKinds : public ::testing::Test {
 protected:
  StreamedKinds() {
    config_.output.directory = (folder_ / "run").string();
    config_.tokenizer.kind = "words";
    config_.tokenizer.min_count = 3;
    config_.data.hold_out_run = 3;
    config_.data.hold_out_every = 7;
    config_.data.max_source_tokens = 7;
  }

  std::string word() { return std::string(1, static_cast<char>('a' + random_() % 20)); }
  std::string label() { return std::string(1, static_cast<char>('P' + random_() % 4)); }
  float number() { return static_cast<float>(random_() % 1000) / 7 - 60; }

  /// Sentences of 1 to 9 tokens with their labels.
  void write_sentences(const std::string& name, int count) {
    std::string text;
    for (int i = 0; i < count; ++i) {
      for (std::uint32_t n = 1 + random_() % 9; n > 0; --n) text += word() + "\t" + label() + "\n";
      text += "\n";
    }
    config_.data.conll = folder_.write(name, text).string();
  }

  /// Rows of 0 to 9 words, some of them in quotes and over two lines.
  void write_table(int count) {
    std::string text = "n,text,label\n";
    for (int i = 0; i < count; ++i) {
      std::string line;
      for (std::uint32_t n = random_() % 10; n > 0; --n) line += word() + (n > 1 ? " " : "");
      if (i % 3 == 0) line = "\"" + line + "\n, " + word() + "\"";
      text += std::to_string(i) + "," + line + "," + label() + "\n";
    }
    config_.data.table = folder_.write("table.csv", text).string();
  }

  /// An archive of sequences of 0 to 9 frames of 3 numbers, and targets by name in another order.
  void write_frames(bool values) {
    std::vector<ZipMember> frames, targets;
    for (int i = 0; i < 90; ++i) {
      const auto time = static_cast<std::int64_t>(random_() % 10);
      std::vector<float> numbers(static_cast<std::size_t>(3 * time));
      for (float& one : numbers) one = number();
      const std::string name = "s" + std::to_string(i) + ".npy";
      frames.push_back({name, npy_file({time, 3}, numbers), i % 2 == 0});
      numbers.resize(static_cast<std::size_t>(2 * time));
      std::vector<std::int32_t> classes;
      for (std::int64_t t = 0; t < time; ++t) {
        classes.push_back(static_cast<std::int32_t>(random_() % 5));
      }
      targets.push_back(
          {name, values ? npy_file({time, 2}, numbers) : npy_file({time}, classes), i % 3 == 0});
    }
    std::swap(targets.front(), targets[40]);
    config_.data.features = folder_.write("x.npz", testing::zip_file(frames)).string();
    config_.data.targets = folder_.write("y.npz", testing::zip_file(targets)).string();
    config_.model.kind = "features";
    config_.model.pooling = "none";
    config_.model.target = values ? "values" : "classes";
  }

  /// Sequences of one length in one array, with a target for each.
  void write_rows(const std::string& targets) {
    std::vector<float> numbers(90 * 4 * 3);
    for (float& one : numbers) one = number();
    config_.data.features = folder_.write("x.npy", npy_file({90, 4, 3}, numbers)).string();
    config_.data.targets = (folder_ / targets).string();
    config_.model.kind = "features";
    config_.model.pooling = "mean";
    config_.model.target = "classes";
  }

  void expect_same_frames() {
    const TrainData streamed = stream_features_data(config_, nullptr);
    const TrainData read = read_features_data(config_, nullptr);
    expect_same(streamed, read);
    const auto& on_disk = dynamic_cast<const data::FrameExamples&>(*streamed.train);
    const auto& in_memory = dynamic_cast<const data::FrameExamples&>(*read.train);
    EXPECT_EQ(on_disk.features(), in_memory.features());
    EXPECT_EQ(on_disk.outputs(), in_memory.outputs());
    EXPECT_EQ(on_disk.largest_target(), in_memory.largest_target());
    // Sums in the same order: to the bit.
    EXPECT_EQ(on_disk.statistics().mean, in_memory.statistics().mean);
    EXPECT_EQ(on_disk.statistics().deviation, in_memory.statistics().deviation);
    EXPECT_EQ(streamed_features_validation(config_, read.tokenizers).validation->fingerprint(),
              read.validation->fingerprint());
  }

  std::mt19937 random_{11};
  TemporaryFolder folder_;
  TrainConfig config_;
};

TEST_F(StreamedKinds, SentencesAreThoseThatAreReadIntoMemory) {
  config_.model.kind = "tagger";
  write_sentences("dev.conll", 40);
  const std::string validation = config_.data.conll;
  write_sentences("train.conll", 400);
  const TrainData read = read_tagger_data(config_, nullptr);
  expect_same(stream_tagger_data(config_, nullptr), read);
  EXPECT_EQ(streamed_tagger_validation(config_, read.tokenizers).validation->fingerprint(),
            read.validation->fingerprint());
  config_.data.hold_out_run = config_.data.hold_out_every = 0;
  config_.data.validation_conll = validation;
  expect_same(stream_tagger_data(config_, nullptr), read_tagger_data(config_, nullptr));
}

TEST_F(StreamedKinds, LabelledTextsToo) {
  config_.model.kind = "classifier";
  write_table(500);
  const TrainData read = read_classifier_data(config_, nullptr);
  expect_same(stream_classifier_data(config_, nullptr), read);
  EXPECT_EQ(streamed_classifier_validation(config_, read.tokenizers).validation->fingerprint(),
            read.validation->fingerprint());
  config_.data.source_segmenter = "sed 's/a/a a/g'";
  expect_same(stream_classifier_data(config_, nullptr), read_classifier_data(config_, nullptr));
}

TEST_F(StreamedKinds, SequencesOfFramesToo) {
  for (const bool values : {true, false}) {
    write_frames(values);
    expect_same_frames();
  }
}

TEST_F(StreamedKinds, SequencesWithATargetEachToo) {
  write_rows("classes.npy");
  std::vector<std::int32_t> classes;
  std::vector<float> values;
  std::string names;
  for (int i = 0; i < 90; ++i) {
    classes.push_back(static_cast<std::int32_t>(random_() % 5));
    values.push_back(number());
    names += label() + "\n";
  }
  folder_.write("classes.npy", npy_file({90}, classes));
  expect_same_frames();
  write_rows("names.txt");
  folder_.write("names.txt", names);
  expect_same_frames();
  write_rows("values.npy");
  config_.model.target = "values";
  folder_.write("values.npy", npy_file({90}, values));
  expect_same_frames();
}

TEST_F(StreamedKinds, BadExamplesAreRefusedWithTheirPlace) {
  const auto refuse = [](const auto& read, const std::string& said) {
    EXPECT_THAT(error_of(read).what(), HasSubstr(said));
  };
  config_.data.hold_out_run = config_.data.hold_out_every = 0;
  config_.data.conll = folder_.write("a.conll", "a\tO\nb\n").string();
  const auto tagger = [&] { stream_tagger_data(config_, nullptr); };
  refuse(tagger, "line 2: has 1 column,");
  folder_.write("a.conll", "\n");
  refuse(tagger, "holds no sentence");
  config_.data.table = folder_.write("a.csv", "text,label\na,b\na b\n").string();
  const auto classifier = [&] { stream_classifier_data(config_, nullptr); };
  refuse(classifier, "line 3: it has 1 field,");
  folder_.write("a.csv", "text,label\na,\n");
  refuse(classifier, "line 2: the column 'label' is empty");
  folder_.write("a.csv", "");
  refuse(classifier, "has no rows");
  config_.data.table = "-";
  refuse(classifier, "standard input");
  write_frames(true);
  const std::string one = npy_file({1, 1}, std::vector<float>{1});
  folder_.write("x.npz", testing::zip_file({{"s1.npy", one, false}, {"s2.npy", one, false}}));
  refuse([&] { stream_features_data(config_, nullptr); }, "has no features named 's40'");
}

/// Of a run that is resumed: labels that it doesn't know.
TEST_F(StreamedKinds, LabelsOfARunThatIsResumedMustBeThere) {
  write_rows("names.txt");
  std::string names;
  for (int i = 0; i < 90; ++i) names += label() + "\n";
  folder_.write("names.txt", names);
  const TrainData first = stream_features_data(config_, nullptr);
  // Some of these lines are held out.
  for (std::size_t line = 0; line < 20; ++line) {
    folder_.write("names.txt", names.substr(0, 2 * line) + "new\n" + names.substr(2 * line + 2));
    EXPECT_THAT(error_of([&] { stream_features_data(config_, &first.tokenizers); }).what(),
                HasSubstr("names.txt' line " + std::to_string(line + 1) +
                          ": the label 'new' is none of the 4"));
  }
}

TEST_F(StreamedKinds, AFolderThatChangedIsReadAgain) {
  config_.model.kind = "features";
  config_.model.pooling = "none";
  config_.data.hold_out_run = config_.data.hold_out_every = 0;
  std::filesystem::create_directory(folder_ / "x");
  for (int i = 0; i < 6; ++i) {
    folder_.write("x/" + std::to_string(i) + ".npy", npy_file({1}, std::vector<float>{number()}));
  }
  config_.data.features = config_.data.targets = (folder_ / "x").string();
  config_.model.target = "values";
  const auto before = stream_features_data(config_, nullptr).train->fingerprint();
  EXPECT_EQ(stream_features_data(config_, nullptr).train->fingerprint(), before);
  folder_.write("x/3.npy", npy_file({2}, std::vector<float>{number(), number()}));
  EXPECT_NE(stream_features_data(config_, nullptr).train->fingerprint(), before);
}

}  // namespace
}  // namespace sluice::training
