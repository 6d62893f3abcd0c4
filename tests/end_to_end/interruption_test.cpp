#include <signal.h>

#include <chrono>
#include <iterator>
#include <random>
#include <thread>

#include "end_to_end/workplace.h"

namespace sluice::end_to_end {
namespace {

void sleep_milliseconds(unsigned count) {
  std::this_thread::sleep_for(std::chrono::milliseconds(count));
}

/// Checkpoints so close together that many kills fall into the writing of one.
const std::vector<std::string> kRun{"training.max_epochs=10", "training.validate_every=7",
                                    "training.checkpoint_every=2"};

void expect_same_models(const Workplace& place, const Workplace& other) {
  for (const char* name : {"run/last/model.safetensors", "run/best/model.safetensors"}) {
    EXPECT_TRUE(place.read(name) == other.read(name)) << name << " differs";
  }
}

/// How often training began: each run has a file of metrics of its own.
std::ptrdiff_t runs_begun(const Workplace& place) {
  std::error_code none_yet;
  const std::filesystem::directory_iterator files(place.path() / "run/tensorboard", none_yet);
  return none_yet ? 0 : std::distance(files, {});
}

TEST(Interruption, TermSavesAndTheSameCommandGoesOn) {
  const Workplace uninterrupted, place;
  uninterrupted.train(kRun);
  int stops = 0;
  for (int attempt = 0; attempt < 2; ++attempt) {
    const std::ptrdiff_t begun = runs_begun(place);
    Running running(place.path(), train_arguments(kRun));
    while (runs_begun(place) == begun) sleep_milliseconds(5);
    sleep_milliseconds(60);
    // More than once, as `timeout` and some supervisors send it.
    for (int i = 0; i < 3; ++i) running.send(SIGTERM);
    const Outcome outcome = running.wait();
    ASSERT_EQ(outcome.code, 0) << outcome.err << " signal " << outcome.signal;
    if (outcome.out.find("stopped after step") != std::string::npos) ++stops;
  }
  EXPECT_GT(stops, 0);
  place.train(kRun);
  expect_same_models(place, uninterrupted);
}

// A command that segments for long stands for data that take long.
TEST(Interruption, TermEndsWhileDataAreBeingPrepared) {
  for (const bool streams : {false, true}) {
    const Workplace place;
    std::vector<std::string> slow = kRun;
    slow.push_back("data.source_segmenter=touch begun; sleep 20; cat");
    if (streams) slow.push_back("data.stream=true");
    const auto start = std::chrono::steady_clock::now();
    Running running(place.path(), train_arguments(slow));
    while (!std::filesystem::exists(place / "begun")) sleep_milliseconds(5);
    running.send(SIGTERM);
    const Outcome outcome = running.wait();
    EXPECT_EQ(outcome.code, 0) << outcome.err << " signal " << outcome.signal;
    EXPECT_EQ(outcome.out,
              "stopped while data were being prepared; the same command begins anew\n");
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(19));
    EXPECT_FALSE(std::filesystem::exists(place / "run/last"));
    std::vector<std::string> again = kRun;
    if (streams) again.push_back("data.stream=true");
    place.train(again);
  }
}

TEST(Interruption, KilledAnywhereItEndsWithTheSameBytes) {
  const Workplace uninterrupted, place;
  const auto start = std::chrono::steady_clock::now();
  uninterrupted.train(kRun);
  const auto whole = std::chrono::steady_clock::now() - start;
  std::random_device entropy;
  const unsigned seed = entropy();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int kills = 0; kills < 6;) {
    Running running(place.path(), train_arguments(kRun));
    std::this_thread::sleep_for(whole * (random() % 1000) / 1000);
    running.send(SIGKILL);
    const Outcome outcome = running.wait();
    if (outcome.signal == SIGKILL) {
      ++kills;
      continue;
    }
    // It ended first, so there is nothing left to kill: the next one begins anew.
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    expect_same_models(place, uninterrupted);
    std::filesystem::remove_all(place / "run");
  }
  place.train(kRun);
  expect_same_models(place, uninterrupted);
  for (const std::string& name : place.files()) {
    EXPECT_EQ(name.find(".sluice-"), std::string::npos) << name << " was left behind";
  }
}

}  // namespace
}  // namespace sluice::end_to_end
