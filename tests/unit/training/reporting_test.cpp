// What a run shows of itself: progress lines and TensorBoard's files; and its learning rate.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <vector>

#include "training/crc32c.h"
#include "training/learning_rate.h"
#include "training/metrics_log.h"
#include "training/progress.h"
#include "unit/support/temporary_folder.h"

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

// A reader of its own for the few protocol-buffer fields that are written.
class Message {
 public:
  explicit Message(std::string_view bytes) {
    while (!bytes.empty()) {
      const std::uint64_t key = varint(bytes);
      std::string_view value;
      switch (key & 7) {
        case 0:
          numbers[key >> 3] = varint(bytes);
          continue;
        case 1:
          value = take(bytes, 8);
          break;
        case 2:
          value = take(bytes, varint(bytes));
          break;
        case 5:
          value = take(bytes, 4);
          break;
        default:
          throw std::runtime_error("wire type");
      }
      fields[key >> 3] = std::string(value);
    }
  }
  template <typename T>
  T fixed(std::uint64_t field) const {
    T value{};
    const std::string& bytes = fields.at(field);
    if (bytes.size() != sizeof(T)) throw std::runtime_error("size");
    std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
  }

  static std::string_view take(std::string_view& bytes, std::uint64_t count) {
    if (count > bytes.size()) throw std::runtime_error("truncated");
    const std::string_view taken = bytes.substr(0, count);
    bytes.remove_prefix(count);
    return taken;
  }
  static std::uint64_t varint(std::string_view& bytes) {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(bytes, 1)[0]);
      value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  }

  std::map<std::uint64_t, std::uint64_t> numbers;
  std::map<std::uint64_t, std::string> fields;
};

std::uint32_t unmasked(std::string_view bytes) {
  std::uint32_t value = 0;
  std::memcpy(&value, bytes.data(), 4);
  value -= 0xa282ead8u;
  return (value >> 17) | (value << 15);
}

std::vector<Message> read_events(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string content(std::istreambuf_iterator<char>(file), {});
  std::string_view left = content;
  std::vector<Message> events;
  while (!left.empty()) {
    const std::string_view length = Message::take(left, 8);
    EXPECT_EQ(unmasked(Message::take(left, 4)), crc32c(length));
    std::uint64_t size = 0;
    std::memcpy(&size, length.data(), 8);
    const std::string_view payload = Message::take(left, size);
    EXPECT_EQ(unmasked(Message::take(left, 4)), crc32c(payload));
    events.emplace_back(payload);
  }
  return events;
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
    return log.path();
  };
  const auto first = write(1, 40, 1);
  const auto second = write(21, 60, 2);
  EXPECT_LT(first.native(), second.native());
  EXPECT_EQ(read_events(second).size(), 2u + 40 + 4);
}

}  // namespace
}  // namespace sluice::training
