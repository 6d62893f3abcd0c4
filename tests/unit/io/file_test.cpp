#include "io/file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <random>

#include "child_process.h"
#include "sluice/error.h"
#include "temporary_folder.h"
#include "unit/support/full_disk.h"

namespace sluice::io {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

TEST(DurableFile, WritesAndReplaces) {
  const TemporaryFolder folder;
  write_file_durably(folder / "f", "first");
  EXPECT_EQ(read_file(folder / "f", 5), "first");
  write_file_durably(folder / "f", "");
  EXPECT_EQ(read_file(folder / "f", 0), "");
  EXPECT_EQ(folder.count(), 1);
}

TEST(DurableFile, UncommittedLeavesTheOldOne) {
  const TemporaryFolder folder;
  write_file_durably(folder / "f", "old");
  {
    DurableFile file(folder / "f");
    file.write(bytes_of("new"));
  }
  EXPECT_EQ(read_file(folder / "f", 100), "old");
  EXPECT_EQ(folder.count(), 1);
}

TEST(DurableFile, NamesTheFolderThatIsMissing) {
  const TemporaryFolder folder;
  const Error error = error_of([&] { DurableFile(folder / "none" / "f"); });
  EXPECT_EQ(error.code(), ErrorCode::kNotFound);
  EXPECT_NE(std::string(error.what()).find("/none/f': there is no folder '"), std::string::npos)
      << error.what();
}

TEST(DurableFile, FullDiskLeavesTheOldOne) {
  const TemporaryFolder folder;
  write_file_durably(folder / "f", "old");
  const Error error = error_of([&] {
    const testing::FileSizeLimit limit(1000);
    write_file_durably(folder / "f", std::string(5000, 'x'));
  });
  EXPECT_EQ(error.code(), ErrorCode::kIo);
  EXPECT_NE(std::string(error.what()).find("/f.sluice-tmp': File too large"), std::string::npos)
      << error.what();
  EXPECT_EQ(read_file(folder / "f", 100), "old");
  EXPECT_EQ(folder.count(), 1);
}

TEST(File, AFullDeviceIsAnError) {
  if (access("/dev/full", W_OK) != 0) GTEST_SKIP() << "no /dev/full here";
  File file = File::open_to_write("/dev/full");
  const Error error = error_of([&] { file.write(bytes_of("content")); });
  EXPECT_EQ(error.code(), ErrorCode::kIo);
  EXPECT_STREQ(error.what(), "cannot write '/dev/full': No space left on device");
}

TEST(DurableFile, TakesOverFromADeadWriterButNotFromALivingOne) {
  const TemporaryFolder folder;
  ChildProcess child([&] {
    DurableFile file(folder / "f");
    file.write(bytes_of("a longer content, half written"));
    raise(SIGKILL);
  });
  EXPECT_EQ(child.wait(), -SIGKILL);
  EXPECT_FALSE(std::filesystem::exists(folder / "f"));
  {
    DurableFile file(folder / "f");
    file.write(bytes_of("short"));
    const Error error = error_of([&] { DurableFile second(folder / "f"); });
    EXPECT_NE(std::string(error.what()).find("another process"), std::string::npos);
    file.commit();
  }
  EXPECT_EQ(read_file(folder / "f", 100), "short");
  EXPECT_EQ(folder.count(), 1);
}

/// Killed at any moment, the file is one of the versions, and no older than the last reported one.
TEST(DurableFile, SurvivesKillsAtRandomMoments) {
  const TemporaryFolder folder;
  const auto version = [](int number) { return std::string(20'000, char('a' + number % 26)); };
  std::mt19937 random(7);
  write_file_durably(folder / "f", version(0));
  for (int round = 0; round < 15; ++round) {
    ChildProcess child([&] {
      for (int number = 0;; ++number) write_file_durably(folder / "f", version(number));
    });
    usleep(random() % 20'000);
    child.kill_and_wait();
    const std::string content = read_file(folder / "f", 100'000);
    ASSERT_EQ(content, version(content.empty() ? 0 : content[0] - 'a'));
  }
}

TEST(DurableFile, NeverReplacesWhatIsNoRegularFile) {
  const TemporaryFolder folder;
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(error_of([&] { write_file_durably(folder / "pipe", "x"); }).code(),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(error_of([&] { write_file_durably(folder.path(), "x"); }).code(),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(folder.count(), 1);
  const Error error = error_of([&] { write_file_durably(folder / "none" / "f", "x"); });
  EXPECT_EQ(error.code(), ErrorCode::kNotFound);
}

TEST(ReadFile, RefusesWhatIsTooLargeWithBothNumbers) {
  const TemporaryFolder folder;
  write_file_durably(folder / "f", std::string(200'000, 'x'));
  EXPECT_EQ(read_file(folder / "f", 200'000).size(), 200'000u);
  const Error error = error_of([&] { read_file(folder / "f", 199'999); });
  EXPECT_EQ(error.code(), ErrorCode::kFormat);
  EXPECT_NE(std::string(error.what()).find("200000"), std::string::npos) << error.what();
  EXPECT_NE(std::string(error.what()).find("199999"), std::string::npos) << error.what();
  // What has no size to look at beforehand is cut off while reading.
  EXPECT_EQ(error_of([&] { read_file("/dev/zero", 300'000); }).code(), ErrorCode::kFormat);
  EXPECT_EQ(read_file("/dev/null", 0), "");
  EXPECT_EQ(error_of([&] { read_file(folder / "none", 1); }).code(), ErrorCode::kNotFound);
  EXPECT_EQ(error_of([&] { read_file(folder.path(), 1); }).code(), ErrorCode::kIo);
}

}  // namespace
}  // namespace sluice::io
