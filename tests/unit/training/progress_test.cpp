#include "training/progress.h"

#include <gtest/gtest.h>

#include <sstream>

namespace sluice::training {
namespace {

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

TEST(Progress, ALineIsNotCutWithinACharacter) {
  FakeRun run(true, 15);  // 14 bytes, as the last column stays free, end within the third letter
  run.progress.work("reading 'äöü'", -1);
  EXPECT_EQ(run.take(), "\rreading 'äö\x1b[K");
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

// One step has no speed, and none is better than "0 tok/s".
TEST(Progress, SaysNoSpeedBeforeItIsKnown) {
  FakeRun run(false);
  run.step(-1);
  run.progress.finish();
  EXPECT_EQ(run.take(), "epoch 1 step 1 loss 2.5000 lr 0.001\n");
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
  EXPECT_EQ(out.str(), "epoch 1 step 2 loss 2.5000 lr 0.001 scale 65536 skipped 3\n");
}

}  // namespace
}  // namespace sluice::training
