#include "training/features_data.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "data/frame_corpus.h"
#include "unit/support/npy_file.h"
#include "unit/support/temporary_folder.h"
#include "unit/support/zip_file.h"

namespace sluice::training {
namespace {

using testing::npy_file;

/// Sequences named by letters and numbers; each frame of u7, and its target, is 7.
class FeaturesDataTest : public ::testing::Test {
 protected:
  FeaturesDataTest() {
    config_.model.kind = "features";
    config_.data.features = (folder_ / "features").string();
    config_.data.targets = (folder_ / "targets.npz").string();
  }

  static std::string frames_of(int number, std::int64_t time, std::int64_t width) {
    const auto count = static_cast<std::size_t>(time * width);
    return npy_file({time, width}, std::vector<float>(count, static_cast<float>(number)));
  }
  /// Of as many frames as the number modulo three, and one.
  void write_folder(const std::string& name, const std::vector<int>& numbers) {
    std::filesystem::remove_all(folder_ / name);
    std::filesystem::create_directory(folder_ / name);
    for (const int n : numbers) {
      folder_.write(name + "/u" + std::to_string(n) + ".npy", frames_of(n, 1 + n % 3, 2));
    }
  }
  void write_archive(const std::string& name, const std::vector<int>& numbers,
                     std::int64_t width = 1) {
    std::vector<testing::ZipMember> members;
    for (const int n : numbers) {
      members.push_back({"u" + std::to_string(n) + ".npy", frames_of(n, 1 + n % 3, width), false});
    }
    folder_.write(name, testing::zip_file(members));
  }

  TrainData read() const { return read_features_data(config_, nullptr); }
  /// Every frame's target must be the number that is the frame.
  void expect_pairs(std::size_t sequences) {
    const TrainData data = read();
    const auto& corpus = dynamic_cast<const data::FrameCorpus&>(*data.train);
    ASSERT_EQ(corpus.frames.names.size(), sequences);
    for (std::int64_t i = 0; i < corpus.size(); ++i) {
      ASSERT_EQ(corpus.frames.length(i), corpus.values.length(i));
      EXPECT_EQ(corpus.frames.frames(i)[0], corpus.values.frames(i)[0]) << corpus.frames.names[i];
    }
  }
  void refuse(const std::vector<std::string>& said) const {
    const Error error = testing::error_of([&] { read(); });
    EXPECT_EQ(error.code(), ErrorCode::kFormat) << error.what();
    for (const std::string& part : said) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
          << error.what() << "\nlacks " << part;
    }
  }

  testing::TemporaryFolder folder_;
  TrainConfig config_;
};

TEST_F(FeaturesDataTest, TargetsAreThoseOfTheSameName) {
  // A folder is in the order of its names (u0, u1, u10, u11, u2, ...), an archive in its own.
  write_folder("features", {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  write_archive("targets.npz", {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  expect_pairs(12);
  write_archive("targets.npz", {11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0});
  expect_pairs(12);
  config_.data.features = (folder_ / "features.npz").string();
  write_archive("features.npz", {3, 0, 6, 9, 1}, 2);
  write_archive("targets.npz", {0, 3, 6, 9, 1});
  expect_pairs(5);
}

TEST_F(FeaturesDataTest, ClassesAreThoseOfTheSameName) {
  config_.model.target = "classes";
  write_folder("features", {0, 1, 3});
  std::vector<testing::ZipMember> members;
  for (const int n : {3, 1, 0}) {
    const auto frames = static_cast<std::size_t>(1 + n % 3);
    members.push_back({"u" + std::to_string(n) + ".npy",
                       npy_file({1 + n % 3}, std::vector<std::int32_t>(frames, n)), false});
  }
  folder_.write("targets.npz", testing::zip_file(members));
  const TrainData data = read();
  EXPECT_EQ(dynamic_cast<const data::FrameCorpus&>(*data.train).labels,
            (std::vector<std::vector<std::int32_t>>{{0}, {1, 1}, {3}}));
}

TEST_F(FeaturesDataTest, ANameWithoutPartnerIsRefused) {
  write_folder("features", {0, 3, 6});
  write_archive("targets.npz", {0, 9, 6});
  refuse({"targets.npz' has no targets named 'u3'", "features'", "'u9' stands in their place"});
  write_archive("targets.npz", {0, 6});
  refuse({"targets.npz' has no targets named 'u3'"});
  write_archive("targets.npz", {0, 3, 6, 9});
  refuse({"features' has no features named 'u9'", "targets.npz'"});
  write_archive("targets.npz", {0, 3, 3});
  refuse({"two arrays named 'u3'"});

  // Those to validate on, too.
  write_archive("targets.npz", {6, 3, 0});
  write_folder("dev", {0, 3});
  write_archive("dev.npz", {3, 6});
  config_.data.validation_features = (folder_ / "dev").string();
  config_.data.validation_targets = (folder_ / "dev.npz").string();
  refuse({"dev.npz' has no targets named 'u0'", "'u3' stands in their place"});
}

TEST_F(FeaturesDataTest, OneArrayNeedsNoName) {
  folder_.write("x.npz", testing::zip_file({{"x.npy", frames_of(5, 3, 2), false}}));
  folder_.write("y.npz", testing::zip_file({{"y.npy", frames_of(5, 3, 1), false}}));
  config_.data.features = (folder_ / "x.npz").string();
  config_.data.targets = (folder_ / "y.npz").string();
  expect_pairs(1);
}

TEST_F(FeaturesDataTest, TheOrderIsToldWhereTargetsHaveNoNames) {
  write_folder("features", {2, 10, 1, 3});
  config_.data.targets = folder_.write("labels.txt", "a\nb\na\nb\n").string();
  config_.model.target = "classes";
  config_.model.pooling = "last";
  const TrainData data = read();
  ASSERT_FALSE(data.notes.empty());
  EXPECT_NE(data.notes.front().find("in their order, to 'u1', 'u10', 'u2', ..."), std::string::npos)
      << data.notes.front();
}

TEST_F(FeaturesDataTest, WrongTargetsAreRefusedAsSuch) {
  write_folder("features", {0, 3});
  const float nan = std::numeric_limits<float>::quiet_NaN();
  folder_.write("targets.npz",
                testing::zip_file({{"u0.npy", npy_file({1, 1}, std::vector<float>{1}), false},
                                   {"u3.npy", npy_file({1, 1}, std::vector<float>{nan}), false}}));
  refuse({"array 'u3': frame 0", "is nan; targets must be finite"});
  config_.model.pooling = "last";
  refuse({"model.pooling is last", "one .npy array [sequences] or [sequences, values] is wanted"});
  config_.model.target = "classes";
  refuse({"model.pooling is last", "a text file with a label a line, is wanted"});
  config_.data.targets = (folder_ / "features").string();
  refuse({"features' holds arrays for the frames", "integers [sequences]"});
}

}  // namespace
}  // namespace sluice::training
