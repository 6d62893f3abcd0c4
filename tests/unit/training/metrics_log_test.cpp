#include "training/metrics_log.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <random>
#include <vector>

#include "io/crc32c.h"
#include "io/png.h"
#include "training/histogram.h"
#include "unit/support/png_reader.h"
#include "unit/support/temporary_folder.h"
#include "unit/training/event_reader.h"

namespace sluice::training {
namespace {

TEST(Crc32c, KnownValues) {
  EXPECT_EQ(io::crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(io::crc32c(std::string(32, '\0')), 0x8A9136AAu);  // RFC 3720, B.4
  EXPECT_EQ(io::crc32c(std::string(32, '\xff')), 0x62A8AB43u);
}

TEST(MetricsLog, RecordsReadBack) {
  const testing::TemporaryFolder folder;
  const MetricsLog log_path_only(folder.path() / "a" / "b", 1);
  MetricsLog log(folder.path() / "a" / "b", 301);
  EXPECT_NE(log.path(), log_path_only.path());
  log.scalar("train/loss", 301, 2.5);
  log.scalar("train/loss", 70000, -0.0);
  const std::vector<Message> events = read_events(log.path());
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(events[0].fields.at(3), "brain.Event:2");
  EXPECT_GT(events[0].fixed<double>(1), 1.7e9);
  EXPECT_EQ(events[1].numbers.at(2), 301u);
  EXPECT_EQ(Message(events[1].fields.at(7)).numbers.at(1), 1u);  // START
  const Message value(Message(events[2].fields.at(5)).fields.at(1));
  EXPECT_EQ(value.fields.at(1), "train/loss");
  EXPECT_EQ(value.fixed<float>(2), 2.5f);
  EXPECT_EQ(events[3].numbers.at(2), 70000u);
}

TEST(Histogram, CountsEveryNumberOnce) {
  std::mt19937 random(3);
  for (const std::size_t size : {1u, 2u, 7u, 5000u}) {
    std::vector<float> numbers(size);
    for (float& number : numbers) number = std::normal_distribution<float>(-2, 3)(random);
    const Histogram histogram = histogram_of(numbers);
    EXPECT_EQ(histogram.least, *std::min_element(numbers.begin(), numbers.end()));
    EXPECT_EQ(histogram.most, *std::max_element(numbers.begin(), numbers.end()));
    EXPECT_EQ(histogram.count, static_cast<double>(size));
    ASSERT_EQ(histogram.limits.size(), histogram.counts.size());
    EXPECT_EQ(histogram.limits.back(), histogram.most);
    double sum = 0, squares = 0, lower = -1e30;
    for (const float number : numbers) {
      sum += static_cast<double>(number);
      squares += static_cast<double>(number) * static_cast<double>(number);
    }
    EXPECT_EQ(histogram.sum, sum);
    EXPECT_EQ(histogram.squares, squares);
    for (std::size_t i = 0; i < histogram.limits.size(); ++i) {
      const double upper = histogram.limits[i];
      EXPECT_EQ(histogram.counts[i], std::count_if(numbers.begin(), numbers.end(), [&](double n) {
                  return n > lower && n <= upper;
                }));
      lower = upper;
    }
  }
}

TEST(Histogram, LeavesOutWhatIsNotFinite) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Histogram same = histogram_of(std::vector<float>{2, nan, 2, infinity, 2});
  EXPECT_EQ(same.limits, std::vector<double>{2});
  EXPECT_EQ(same.counts, std::vector<double>{3});
  EXPECT_EQ(same.sum, 6);
  EXPECT_EQ(histogram_of(std::vector<float>{nan, -infinity}).count, 0);
  EXPECT_EQ(histogram_of({}).count, 0);
}

TEST(MetricsLog, HistogramsAndImagesReadBack) {
  const testing::TemporaryFolder folder;
  MetricsLog log(folder.path(), 1);
  const Histogram histogram = histogram_of(std::vector<float>{1, 4, 2, 2, -3});
  log.histogram("weights/a", 9, histogram);
  const std::string rgb(3 * 5 * 2, '\x40');
  log.image("attention/1", 10, 5, 2, io::encode_png(5, 2, rgb));
  const std::vector<Message> events = read_events(log.path());
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(events[2].numbers.at(2), 9u);
  const Message numbers(Message(Message(events[2].fields.at(5)).fields.at(1)).fields.at(5));
  EXPECT_EQ(numbers.fixed<double>(1), -3);
  EXPECT_EQ(numbers.fixed<double>(2), 4);
  EXPECT_EQ(numbers.fixed<double>(3), 5);
  EXPECT_EQ(numbers.fixed<double>(4), 6);
  EXPECT_EQ(numbers.fixed<double>(5), 34);
  EXPECT_EQ(doubles_of(numbers.fields.at(6)), histogram.limits);
  EXPECT_EQ(doubles_of(numbers.fields.at(7)), histogram.counts);
  const Message value(Message(events[3].fields.at(5)).fields.at(1));
  EXPECT_EQ(value.fields.at(1), "attention/1");
  const Message image(value.fields.at(4));
  EXPECT_EQ(image.numbers.at(1), 2u);  // height
  EXPECT_EQ(image.numbers.at(2), 5u);
  EXPECT_EQ(image.numbers.at(3), 3u);  // RGB
  EXPECT_EQ(testing::read_png(image.fields.at(4)).rgb, rgb);
}

TEST(MetricsLog, GoesOnWithoutAFolder) {
  const testing::TemporaryFolder folder;
  std::ofstream(folder.path() / "file") << "x";
  std::vector<std::string> warnings;
  const WarningHandler handler = [&](std::string_view said) { warnings.emplace_back(said); };
  MetricsLog log(folder.path() / "file" / "tensorboard", 1, &handler);
  log.scalar("train/loss", 1, 1);
  ASSERT_EQ(warnings.size(), 1U);  // and not one for each number
  EXPECT_TRUE(warnings[0].starts_with("no metrics for TensorBoard: ")) << warnings[0];
}

// tests/peers/check_tensorboard.py gives a folder and reads these values with TensorBoard itself: a
// run up to step 40 that was killed, and its resumption from step 20.
TEST(MetricsLog, WritesARunForPeers) {
  const testing::TemporaryFolder temporary;
  const char* wanted = std::getenv("SLUICE_TENSORBOARD_FOLDER");
  const std::filesystem::path folder = wanted != nullptr ? wanted : temporary.path().native();
  const auto write = [&](std::int64_t first, std::int64_t last, double offset) {
    MetricsLog log(folder, first);
    for (std::int64_t step = first; step <= last; ++step) {
      log.scalar("train/loss", step, offset + 1.0 / static_cast<double>(step));
      if (step % 10 == 0) log.scalar("validation/perplexity", step, std::exp(offset));
    }
    // Histogram and picture of the step, as the Python side makes them, too.
    std::vector<float> numbers;
    for (int i = 0; i <= 100; ++i) numbers.push_back(static_cast<float>(i * i));
    log.histogram("weights/a", last, histogram_of(numbers));
    log.image("attention/1", last, 2, 1,
              io::encode_png(2, 1, std::string("\xff\x00\x00\x00\x00\xff", 6)));
    return log.path();
  };
  const auto first = write(1, 40, 1);
  const auto second = write(21, 60, 2);
  EXPECT_LT(first.native(), second.native());
  EXPECT_EQ(read_events(second).size(), 2u + 40 + 4 + 2);
}

}  // namespace
}  // namespace sluice::training
