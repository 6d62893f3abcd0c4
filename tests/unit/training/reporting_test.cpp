// What a run shows of itself: progress lines and TensorBoard's files; and its learning rate.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <map>
#include <random>
#include <sstream>
#include <vector>

#include "io/png.h"
#include "training/crc32c.h"
#include "training/histogram.h"
#include "training/learning_rate.h"
#include "training/metrics_log.h"
#include "training/progress.h"
#include "unit/support/png_reader.h"
#include "unit/support/temporary_folder.h"
#include "unit/training/event_reader.h"

namespace sluice::training {
namespace {

LearningRateConfig rate_config(std::string schedule, std::int64_t warmup) {
  LearningRateConfig config;
  config.learning_rate = 0.5;
  config.schedule = std::move(schedule);
  config.warmup_steps = warmup;
  config.plateau_factor = 0.25;
  config.plateau_patience = 2;
  config.min_learning_rate = 0.01;
  return config;
}

TEST(LearningRate, WarmsUpThenStays) {
  const LearningRate rate(rate_config("constant", 4));
  EXPECT_EQ(rate.at(1), 0.125);
  EXPECT_EQ(rate.at(4), 0.5);
  EXPECT_EQ(rate.at(1000), 0.5);
  EXPECT_EQ(LearningRate(rate_config("constant", 0)).at(1), 0.5);
}

TEST(LearningRate, FallsWithTheInverseRoot) {
  const LearningRate rate(rate_config("inverse_sqrt", 4));
  EXPECT_EQ(rate.at(2), 0.25);
  EXPECT_EQ(rate.at(4), 0.5);
  EXPECT_EQ(rate.at(16), 0.25);
}

TEST(LearningRate, FallsAlongACosine) {
  LearningRateConfig config = rate_config("cosine", 4);
  config.decay_steps = 12;
  config.min_learning_rate = 0.1;
  const LearningRate rate(config);
  EXPECT_EQ(rate.at(1), 0.125);
  EXPECT_EQ(rate.at(4), 0.5);
  EXPECT_NEAR(rate.at(8), 0.4, 1e-15);  // a third of the way, where the cosine is 1/2
  EXPECT_NEAR(rate.at(10), 0.3, 1e-15);
  EXPECT_NEAR(rate.at(12), 0.2, 1e-15);
  for (std::int64_t step = 5; step <= 16; ++step) EXPECT_LT(rate.at(step), rate.at(step - 1));
  EXPECT_EQ(rate.at(16), 0.1);
  EXPECT_EQ(rate.at(1000), 0.1);
}

TEST(LearningRate, FallsInSteps) {
  LearningRateConfig config = rate_config("step", 4);
  config.decay_steps = 3;
  config.decay_factor = 0.25;
  const LearningRate rate(config);
  EXPECT_EQ(rate.at(2), 0.25);
  EXPECT_EQ(rate.at(5), 0.5);
  EXPECT_EQ(rate.at(7), 0.5);
  EXPECT_EQ(rate.at(8), 0.125);
  EXPECT_EQ(rate.at(10), 0.125);
  EXPECT_EQ(rate.at(11), 0.03125);
  EXPECT_EQ(rate.at(14), 0.01);  // no lower than the least
  config.warmup_steps = 0;
  EXPECT_EQ(LearningRate(config).at(3), 0.5);
  EXPECT_EQ(LearningRate(config).at(4), 0.125);
}

TEST(LearningRate, PlateauLowersAfterPatienceAndKeepsTheFloor) {
  LearningRate rate(rate_config("plateau", 0));
  for (const double loss : {3.0, 2.0, 2.5}) rate.validated(loss);
  EXPECT_EQ(rate.at(9), 0.5);
  rate.validated(2.0);  // equal is no improvement
  EXPECT_EQ(rate.at(9), 0.125);
  rate.validated(1.0);
  for (int i = 0; i < 4; ++i) rate.validated(1.5);
  EXPECT_EQ(rate.at(9), 0.01);
}

TEST(LearningRate, RestoredStateGoesOnTheSame) {
  LearningRate one(rate_config("plateau", 3));
  one.validated(1.0 / 3);
  one.validated(0.5);
  LearningRate other(rate_config("plateau", 3));
  other.restore(one.state());
  one.validated(0.4);
  other.validated(0.4);
  EXPECT_EQ(one.state(), other.state());
  EXPECT_EQ(other.at(50), 0.125);
}

TEST(Progress, DurationsAndCounts) {
  EXPECT_EQ(format_duration(0.4), "0s");
  EXPECT_EQ(format_duration(59.6), "1m00s");
  EXPECT_EQ(format_duration(7500), "2h05m");
  EXPECT_EQ(format_duration(4 * 86400 + 3 * 3600), "4d03h");
  EXPECT_EQ(format_count(950), "950");
  EXPECT_EQ(format_count(12340), "12.3k");
  EXPECT_EQ(format_count(4500000), "4.5M");
}

struct FakeRun {
  explicit FakeRun(bool terminal, std::int64_t width = 200)
      : progress(out, {.terminal = terminal, .width = width, .bar_seconds = 1, .line_seconds = 10},
                 [this] { return now; }) {}
  void step(double fraction) {
    ++count;
    progress.update({1, count, fraction, 500, 2.5, 1e-3});
    now += 0.5;
  }
  std::string take() {
    const std::string text = out.str();
    out.str("");
    return text;
  }

  std::ostringstream out;
  double now = 100;
  std::int64_t count = 0;
  Progress progress;
};

TEST(Progress, RewritesOneLineOnATerminal) {
  FakeRun run(true);
  run.step(0.0);
  run.step(0.1);
  EXPECT_EQ(run.take(), "");
  run.step(0.2);
  // 1 s has passed for a fifth of the run and two steps of 500 tokens.
  EXPECT_EQ(
      run.take(),
      "\repoch 1 step 3 [###.............] 20% loss 2.5000 1.0k tok/s lr 0.001 left 4s\x1b[K");
  run.progress.message("saved");
  EXPECT_EQ(run.take().substr(0, 10), "\r\x1b[Ksaved\n");
  run.progress.finish();
  EXPECT_EQ(run.take(), "\n");
}

TEST(Progress, ALineNeverWrapsOnATerminal) {
  FakeRun run(true, 30);
  for (int i = 0; i < 3; ++i) run.step(0.1 * i);
  EXPECT_EQ(run.take(), "\repoch 1 step 3 [###..........\x1b[K");
}

TEST(Progress, PlainLinesElsewhere) {
  FakeRun run(false);
  for (int i = 0; i < 21; ++i) run.step(-1);
  EXPECT_EQ(run.take(), "epoch 1 step 21 loss 2.5000 1.0k tok/s lr 0.001\n");
  run.step(-1);
  EXPECT_EQ(run.take(), "");
  run.progress.finish();
  // 500 tokens in the second since: 0.3 * 500 + 0.7 * 1000.
  EXPECT_EQ(run.take(), "epoch 1 step 22 loss 2.5000 850 tok/s lr 0.001\n");
}

TEST(Progress, ShowsWorkBesideTheStepsOnATerminal) {
  FakeRun run(true);
  const auto work = [&](std::string_view what, double done, double seconds) {
    run.progress.work(what, done);
    run.now += seconds;
    return run.take();
  };
  EXPECT_EQ(work("reading 'a'", -1, 0.3), "\rreading 'a'\x1b[K");
  EXPECT_EQ(work("ids", 0, 0.6), "\rids [................]  0%\x1b[K");
  EXPECT_EQ(work("ids", 0.25, 0.6), "");  // too soon
  EXPECT_EQ(work("ids", 0.5, 0), "\rids [########........] 50% 1s\x1b[K");
  run.progress.message("300 examples");
  EXPECT_EQ(run.take(), "\r\x1b[K300 examples\n");  // no bar has been there

  for (int i = 0; i < 3; ++i) run.step(0.1 * i);
  const std::string bar = run.take();
  EXPECT_NE(work("validating", 0, 60), "");
  run.progress.message("step 3");
  const std::string after = run.take();
  EXPECT_TRUE(after.starts_with("\r\x1b[Kepoch 1 step 3 ")) << after;  // the bar is back
  EXPECT_NE(after.find("\r\x1b[Kstep 3\nepoch 1 step 3 "), std::string::npos) << after;
  // Another validation begins its own time.
  EXPECT_EQ(work("validating", 0, 0), "\rvalidating [................]  0%\x1b[K");
  run.progress.finish();
  EXPECT_TRUE(run.take().starts_with("\r\x1b[Kepoch"));
}

TEST(Progress, TellsElsewhereOfLongWorkAlone) {
  FakeRun run(false);
  run.progress.work("reading 'a'", -1);
  EXPECT_EQ(run.take(), "reading 'a'\n");
  for (int second = 0; second < 25; ++second, ++run.now) run.progress.work("ids", second / 25.0);
  EXPECT_EQ(run.take(), "ids  40% 10s\nids  80% 20s\n");
  for (int i = 0; i < 100; ++i) run.progress.work("validating", i / 100.0);
  run.progress.finish();
  EXPECT_EQ(run.take(), "");
}

TEST(Progress, TellsOfTheLossScale) {
  std::ostringstream out;
  Progress progress(out, {.line_seconds = 0}, [] { return 0.0; });
  ProgressReport report{1, 2, -1, 500, 2.5, 1e-3, 65536, 3};
  progress.update(report);
  progress.finish();
  EXPECT_EQ(out.str(), "epoch 1 step 2 loss 2.5000 0 tok/s lr 0.001 scale 65536 skipped 3\n");
}

TEST(Crc32c, KnownValues) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAu);  // RFC 3720, B.4
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62A8AB43u);
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
  ::testing::internal::CaptureStderr();
  MetricsLog log(folder.path() / "file" / "tensorboard", 1);
  log.scalar("train/loss", 1, 1);
  const std::string warning = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(warning.find("no metrics for TensorBoard"), std::string::npos) << warning;
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
