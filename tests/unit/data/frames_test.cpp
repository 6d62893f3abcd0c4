#include "data/frames.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "unit/support/npy_file.h"
#include "unit/support/temporary_folder.h"
#include "unit/support/zip_file.h"

namespace sluice::data {
namespace {

using testing::zip_file;
using testing::ZipMember;

std::string floats(const std::vector<std::int64_t>& shape, std::vector<float> numbers) {
  return testing::npy_file(shape, numbers);
}
std::string integers(const std::vector<std::int64_t>& shape, std::vector<std::int32_t> numbers) {
  return testing::npy_file(shape, numbers);
}

FrameSequences read_frames(const std::filesystem::path& path) {
  FrameReader reader(path);
  FrameSequences all;
  while (reader.next()) {
    all.width = reader.width();
    all.names.push_back(reader.name());
    all.values.insert(all.values.end(), reader.frames().begin(), reader.frames().end());
    all.first_frame.push_back(all.first_frame.back() + reader.length());
  }
  return all;
}

std::vector<std::vector<std::int32_t>> read_labels(const std::filesystem::path& path,
                                                   std::int64_t classes) {
  LabelReader reader(path, classes);
  std::vector<std::vector<std::int32_t>> all;
  while (reader.next()) all.emplace_back(reader.labels().begin(), reader.labels().end());
  return all;
}

class FramesTest : public ::testing::Test {
 protected:
  template <typename Body>
  void refuse(Body&& body, const std::string& said, ErrorCode code = ErrorCode::kFormat) {
    const Error error = testing::error_of(body);
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_NE(std::string(error.what()).find(said), std::string::npos)
        << error.what() << "\nlacks " << said;
  }
  void refuse_frames(const std::string& bytes, const std::string& said) {
    refuse([&] { read_frames(folder_.write("a.npy", bytes)); }, said);
  }
  testing::TemporaryFolder folder_;
};

TEST_F(FramesTest, AnArrayIsSequencesByItsAxes) {
  const FrameSequences one = read_frames(folder_.write("1.npy", floats({3}, {1, 2, 3})));
  EXPECT_EQ(one.width, 1);
  EXPECT_EQ(one.size(), 1);
  EXPECT_EQ(one.length(0), 3);
  const FrameSequences two = read_frames(folder_.write("2.npy", floats({1, 3}, {1, 2, 3})));
  EXPECT_EQ(two.width, 3);
  EXPECT_EQ(two.length(0), 1);
  const FrameSequences three =
      read_frames(folder_.write("3.npy", floats({2, 1, 3}, {1, 2, 3, 4, 5, 6})));
  EXPECT_EQ(three.size(), 2);
  EXPECT_NE(three.names[1].find("3.npy' sequence 1"), std::string::npos);
  EXPECT_EQ(std::vector<float>(three.frames(1).begin(), three.frames(1).end()),
            (std::vector<float>{4, 5, 6}));
}

TEST_F(FramesTest, AFolderHoldsSequencesOfAnyLengthInTheOrderOfTheirNames) {
  folder_.write("b.npy", floats({1, 2}, {5, 6}));
  folder_.write("a.npy", floats({2, 2}, {1, 2, 3, 4}));
  folder_.write("notes.txt", "not an array");
  folder_.write("c.npy", floats({0, 2}, {}));
  const FrameSequences all = read_frames(folder_.path());
  EXPECT_EQ(all.values, (std::vector<float>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(all.first_frame, (std::vector<std::int64_t>{0, 2, 3, 3}));
  EXPECT_NE(all.names[0].find("a.npy"), std::string::npos);
}

TEST_F(FramesTest, AnArchiveHoldsThemInItsOwnOrder) {
  for (const bool deflated : {false, true}) {
    std::vector<float> many(5000, 0.5F);
    const std::string bytes = zip_file({{"utt2.npy", floats({1, 1}, {5}), deflated},
                                        {"utt1.npy", floats({5000, 1}, many), deflated}});
    const FrameSequences all = read_frames(folder_.write("all.npz", bytes));
    ASSERT_EQ(all.size(), 2);
    EXPECT_NE(all.names[0].find("all.npz' array 'utt2'"), std::string::npos);
    EXPECT_EQ(all.values.size(), 5001u);
    EXPECT_EQ(all.values[0], 5);
  }
}

TEST_F(FramesTest, DamagedArchivesAreRefused) {
  const std::string good = zip_file({{"a.npy", floats({3}, {1, 2, 3}), true}});
  const auto refuse_archive = [&](const std::string& bytes, const std::string& said) {
    refuse([&] { read_frames(folder_.write("a.npz", bytes)); }, said);
  };
  refuse_archive("", "not a zip file");
  refuse_archive("PK", "not a zip file");
  refuse_archive(good.substr(0, good.size() - 5), "not a zip file");
  std::string bad = good;
  bad[60] = static_cast<char>(bad[60] ^ 0x55);  // within the packed bytes
  refuse_archive(bad, "member 'a.npy' is damaged");
  // Every single byte may be wrong: an error, or the content as it was, but nothing worse.
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string changed = good;
    changed[i] = static_cast<char>(changed[i] ^ 0xff);
    try {
      const FrameSequences read = read_frames(folder_.write("a.npz", changed));
      EXPECT_EQ(read.values, (std::vector<float>{1, 2, 3})) << i;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("a.npz"), std::string::npos) << error.what();
    }
  }
}

TEST_F(FramesTest, WhatIsNoFeatureIsRefusedWithItsPlace) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinite = std::numeric_limits<float>::infinity();
  refuse_frames(floats({2, 3}, {1, 2, 3, 4, 5, kNan}),
                "a.npy': frame 1, column 2 (counted from 0) is nan");
  refuse_frames(floats({2, 2, 1}, {1, 2, -kInfinite, 4}),
                "sequence 1: frame 0, column 0 (counted from 0) is infinite in float32");
  refuse_frames(integers({2, 1}, {1, 2}), "integers");
  refuse_frames(floats({1, 1, 1, 1}, {1}), "[1, 1, 1, 1]");
  refuse_frames(floats({4, 0}, {}), "holds nothing");
  refuse_frames(floats({1000000000000, 0, 3}, {}), "holds nothing");
  folder_.write("b.npy", floats({1, 3}, {1, 2, 3}));
  folder_.write("c.npy", floats({2, 2}, {1, 2, 3, 4}));
  std::filesystem::remove(folder_ / "a.npy");
  refuse([&] { read_frames(folder_.path()); }, "its frames have 2 features, but those of ");
  refuse([&] { read_frames(folder_ / "none.npy"); }, "none.npy", ErrorCode::kNotFound);
  refuse([&] { read_frames(folder_ / "none.npz"); }, "none.npz", ErrorCode::kNotFound);
  refuse([&] { read_frames(folder_.write("empty.npz", zip_file({}))); }, "no arrays",
         ErrorCode::kNotFound);
  std::filesystem::create_directory(folder_ / "empty");
  refuse([&] { read_frames(folder_ / "empty"); }, "no .npy files", ErrorCode::kNotFound);
}

TEST_F(FramesTest, LabelsAreClassesFromZeroOn) {
  EXPECT_EQ(read_labels(folder_.write("l.npy", integers({2, 2}, {0, 1, 2, 0})), 3),
            (std::vector<std::vector<std::int32_t>>{{0, 1}, {2, 0}}));
  EXPECT_EQ(read_labels(folder_.write("m.npy", integers({3}, {0, 1, 2})), 3).size(), 1);
  refuse([&] { read_labels(folder_ / "l.npy", 2); }, "sequence 1: the label of frame 0 is 2");
  refuse([&] { read_labels(folder_.write("n.npy", integers({1}, {-1})), 3); }, "is -1");
  refuse([&] { read_labels(folder_.write("o.npy", floats({1}, {1})), 3); }, "floating-point");
  refuse([&] { read_labels(folder_.write("p.npy", integers({1, 1, 1}, {1})), 3); }, "[1, 1, 1]");
}

/// What a reader gives, sequence by sequence, is what is read as a whole.
TEST_F(FramesTest, ReadersGiveTheSameInPieces) {
  // Three pieces, for two sequences would be more than the numbers of one.
  std::vector<float> many(std::size_t{3} * 1'100'000 * 2);
  for (std::size_t i = 0; i < many.size(); ++i) many[i] = static_cast<float>(i);
  folder_.write("b.npy", floats({3, 1'100'000, 2}, std::move(many)));
  folder_.write("a.npy", floats({2, 2}, {1, 2, 3, 4}));
  folder_.write("c.npy", floats({0, 7, 2}, {}));
  folder_.write("d.npy", floats({2, 1, 2}, {5, 6, 7, 8}));
  FrameSequences all;
  for_each_array(folder_.path(),
                 [&](const std::string& where, const std::string&, const io::NpyArray& array) {
                   add_sequences(where, array, all);
                 });
  const std::vector<std::string> keys{
      "a", "b sequence 0", "b sequence 1", "b sequence 2", "d sequence 0", "d sequence 1"};
  FrameReader reader(folder_.path());
  EXPECT_EQ(reader.arrays().names(), (std::vector<std::string>{"a", "b", "c", "d"}));
  for (std::int64_t i = 0; i < all.size(); ++i) {
    ASSERT_TRUE(reader.next());
    EXPECT_EQ(reader.name(), all.names[static_cast<std::size_t>(i)]);
    EXPECT_EQ(reader.key(), keys.at(static_cast<std::size_t>(i)));
    EXPECT_EQ(reader.width(), 2);
    EXPECT_TRUE(std::ranges::equal(reader.frames(), all.frames(i))) << i;
  }
  EXPECT_FALSE(reader.next());
  EXPECT_EQ(all.size(), 6);
}

TEST_F(FramesTest, ReadersFollowAnOrderAndRefuseWhatDiffers) {
  folder_.write("a.npy", floats({1, 2}, {1, 2}));
  folder_.write("b.npy", floats({1, 2}, {3, 4}));
  FrameReader reader(folder_.path());
  reader.arrays().follow(std::vector<std::string>{"b", "a"});
  ASSERT_TRUE(reader.next());
  EXPECT_EQ(reader.frames()[0], 3);
  ASSERT_TRUE(reader.next());
  EXPECT_EQ(reader.frames()[0], 1);
  folder_.write("b.npy", floats({1, 3}, {3, 4, 5}));
  FrameReader other(folder_.path());
  ASSERT_TRUE(other.next());
  refuse([&] { other.next(); }, "b.npy': its frames have 3 features, but those of ");
  folder_.write("b.npy", integers({3, 2}, {0, 1, 0, 1, 0, 7}));
  LabelReader labels(folder_ / "b.npy", 8);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(labels.next());
  EXPECT_EQ(labels.labels()[1], 7);
  EXPECT_NE(labels.name().find("b.npy' sequence 2"), std::string::npos);
  EXPECT_FALSE(labels.next());
}

TEST_F(FramesTest, StatisticsAreThoseOfAllFrames) {
  const FrameSequences all =
      read_frames(folder_.write("s.npy", floats({2, 2, 2}, {1, 5, 2, 5, 3, 5, 6, 5})));
  const FrameStatistics statistics = statistics_of(all);
  EXPECT_EQ(statistics.mean, (std::vector<double>{3, 5}));
  EXPECT_NEAR(statistics.deviation[0], std::sqrt((4 + 1 + 0 + 9) / 4.0), 1e-15);
  EXPECT_EQ(statistics.deviation[1], 0);
}

}  // namespace
}  // namespace sluice::data
