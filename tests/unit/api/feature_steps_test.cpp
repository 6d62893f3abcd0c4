#include <gtest/gtest.h>
#include <sluice/feature_model.h>
#include <sluice/train.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "unit/support/message_of.h"
#include "unit/support/npy_file.h"
#include "unit/support/temporary_folder.h"

/// How often the program takes memory by operator new while it counts.
namespace {

std::atomic<bool> counts = false;
std::atomic<int> taken = 0;

}  // namespace

// Not inlined, lest the compiler take malloc for what somebody deletes.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  if (counts) ++taken;
  if (void* memory = std::malloc(bytes > 0 ? bytes : 1)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(std::size_t bytes, std::align_val_t alignment) {
  if (counts) ++taken;
  const auto unit = static_cast<std::size_t>(alignment);
  if (void* memory = std::aligned_alloc(unit, (bytes + unit - 1) / unit * unit)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}

namespace sluice {
namespace {

/// A model of frames of two features, which answers each with two values or probabilities.
struct FeatureSteps : ::testing::Test {
  FeatureModel trained(const std::string& keys) const {
    std::vector<float> frames;
    std::vector<std::int64_t> labels;
    for (int i = 0; i < 24; ++i) frames.push_back(static_cast<float>(i * 7 % 11) / 5 - 1);
    folder.write("frames.npy", testing::npy_file({12, 2}, frames));
    folder.write("run.toml", "[training]\nmax_steps = 2\n[data]\nfeatures = \"" + at("frames.npy") +
                                 "\"\ntargets = \"" + at("frames.npy") +
                                 "\"\n[output]\ndirectory = \"" + at("run") +
                                 "\"\n[model]\nkind = \"features\"\nbidirectional = false\n" +
                                 keys);
    TrainRequest request;
    request.config_path = at("run.toml");
    request.quiet = true;
    train(request);
    return FeatureModel::load(at("run/last"), {"cpu"});
  }
  std::string at(const std::string& name) const { return (folder / name).native(); }

  testing::TemporaryFolder folder;
};

struct FeatureStepsOf : FeatureSteps, ::testing::WithParamInterface<const char*> {};

TEST_P(FeatureStepsOf, AnswerWhatTheWholeSequenceIsAnswered) {
  FeatureModel model =
      trained(std::string("hidden = 20\nlayers = 2\ncell = \"") + GetParam() + "\"\n");
  const Frames frames{2, {1, 2, 0, -1, 3, 1, -2, 0.5F}};
  const std::vector<float> whole = model.run_part(frames).values;
  ASSERT_EQ(whole.size(), 8U);
  model.begin_sequence();
  for (std::size_t t = 0; t < 4; ++t) {
    std::vector<float> answer(2);
    model.run_part(std::span(frames.values).subspan(2 * t, 2), answer);
    // The products of several steps sum in another order than those of one.
    for (std::size_t i = 0; i < 2; ++i) EXPECT_NEAR(answer[i], whole[2 * t + i], 1e-6) << t;
  }
  EXPECT_NE(whole[0], whole[4]);
}

TEST_P(FeatureStepsOf, TakeNoMemory) {
  FeatureModel model =
      trained(std::string("hidden = 20\nlayers = 2\ncell = \"") + GetParam() + "\"\n");
  const std::vector<float> frame{1, -1};
  std::vector<float> answer(2), first;
  model.run_part(frame, answer);
  first = answer;
  taken = 0;
  counts = true;
  for (int i = 0; i < 100; ++i) model.run_part(frame, answer);
  counts = false;
  EXPECT_EQ(taken, 0);
  EXPECT_NE(answer, first);
  const Frames frames{2, frame};
  counts = true;
  model.run_part(frames);  // its answers are a vector
  counts = false;
  EXPECT_GT(taken, 0);
}

INSTANTIATE_TEST_SUITE_P(Cells, FeatureStepsOf, ::testing::Values("lstm", "gru", "rnn_tanh"),
                         [](const auto& cell) { return std::string(cell.param); });

TEST_F(FeatureSteps, RefuseSizesThatDoNotFit) {
  FeatureModel model = trained("hidden = 4\nlayers = 1\n");
  std::vector<float> frames(6), answers(6);
  model.run_part(frames, answers);
  const std::string state = model.state();
  const auto refused = [&](std::size_t values, std::size_t room) {
    const std::string said = testing::message_of(
        [&] { model.run_part(std::span(frames).first(values), std::span(answers).first(room)); });
    EXPECT_EQ(model.state(), state);
    return said;
  };
  EXPECT_NE(refused(3, 2).find("3 values are no whole number of frames of 2 features"),
            std::string::npos);
  EXPECT_NE(refused(4, 2).find("2 values for answers to 2 frames"), std::string::npos);
  EXPECT_NE(refused(2, 4).find("1 of 2 outputs takes 2"), std::string::npos);
}

}  // namespace
}  // namespace sluice
