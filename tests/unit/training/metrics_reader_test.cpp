#include "training/metrics_reader.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "sluice/error.h"
#include "training/metrics_log.h"
#include "unit/support/temporary_folder.h"

namespace sluice::training {
namespace {

using sluice::testing::error_of;
using sluice::testing::TemporaryFolder;
namespace fs = std::filesystem;

std::string bytes_of(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

/// Three records: version, session start, one value.
std::string small_file() {
  const TemporaryFolder folder;
  MetricsLog log(folder.path(), 1);
  log.scalar("train/loss", 7, 2.5);
  return bytes_of(log.path());
}

TEST(MetricsReader, ReadsWhatTheLogWrites) {
  const TemporaryFolder folder;
  MetricsLog log(folder.path(), 1);
  for (int step = 1; step <= 300; ++step) log.scalar("train/loss", step, 1.0 / step);
  // What is no curve is passed over.
  log.histogram("weights/a", 300, histogram_of(std::vector<float>{1, 2, 3}));
  log.image("attention/1", 300, 1, 1, "not looked at");
  log.scalar("validation/exact_match", 300, 0.25);
  log.scalar("validation/exact_match", 300, 0.5);  // once more at the same step
  const Metrics metrics = read_metrics(folder.path());
  EXPECT_TRUE(metrics.notes.empty());
  ASSERT_EQ(metrics.curves.size(), 2u);
  const Curve& loss = metrics.curves.at("train/loss");
  ASSERT_EQ(loss.size(), 300u);
  for (const auto& [step, value] : loss) {
    EXPECT_EQ(value, static_cast<float>(1.0 / static_cast<double>(step)));
  }
  EXPECT_EQ(metrics.curves.at("validation/exact_match"), (Curve{{300, 0.5}}));
}

TEST(MetricsReader, ForgetsWhatAResumedRunDidAnew) {
  const TemporaryFolder folder;
  {
    MetricsLog killed(folder.path(), 1);
    for (int step = 1; step <= 40; ++step) killed.scalar("loss", step, 1);
  }
  MetricsLog resumed(folder.path(), 21);
  for (int step = 21; step <= 30; ++step) resumed.scalar("loss", step, 2);
  const Curve loss = read_metrics(folder.path()).curves.at("loss");
  EXPECT_EQ(loss.size(), 30u);
  for (const auto& [step, value] : loss) EXPECT_EQ(value, step <= 20 ? 1 : 2) << step;
}

TEST(MetricsReader, NotesARecordThatIsCutShort) {
  const std::string whole = small_file();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const TemporaryFolder folder;
    folder.write("events.out.tfevents.1", whole.substr(0, size));
    const Metrics metrics = read_metrics(folder.path());
    EXPECT_TRUE(metrics.curves.empty());
    EXPECT_LE(metrics.notes.size(), 1u);
  }
  const TemporaryFolder folder;
  folder.write("events.out.tfevents.1", whole + whole.substr(0, 9));
  const Metrics metrics = read_metrics(folder.path());
  EXPECT_EQ(metrics.curves.at("train/loss"), (Curve{{7, 2.5}}));
  ASSERT_EQ(metrics.notes.size(), 1u);
  EXPECT_NE(metrics.notes[0].find("at byte " + std::to_string(whole.size())), std::string::npos);
}

TEST(MetricsReader, RefusesEveryFlippedBit) {
  const std::string whole = small_file();
  for (std::size_t i = 0; i < 8 * whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i / 8] = static_cast<char>(damaged[i / 8] ^ (1 << (i % 8)));
    const TemporaryFolder folder;
    folder.write("events.out.tfevents.1", damaged);
    const Error error = error_of([&] { read_metrics(folder.path()); });
    EXPECT_EQ(error.code(), ErrorCode::kFormat) << i;
    EXPECT_NE(std::string(error.what()).find("events.out.tfevents.1"), std::string::npos);
  }
}

TEST(MetricsReader, RefusesAFolderWithoutEventFiles) {
  const TemporaryFolder folder;
  folder.write("notes.txt", "none");
  EXPECT_EQ(error_of([&] { read_metrics(folder.path()); }).code(), ErrorCode::kNotFound);
  EXPECT_EQ(error_of([&] { read_metrics(folder.path() / "no"); }).code(), ErrorCode::kNotFound);
}

}  // namespace
}  // namespace sluice::training
