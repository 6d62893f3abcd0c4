#include "serving/piece_runner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "unit/serving/model_on_device.h"
#include "unit/support/message_of.h"

namespace sluice::serving {
namespace {

using testing::message_of;

constexpr PieceRunner::Capacity kCapacity{.slots = 11, .rows = 6, .time = 4};

/// A sequence of random input, some of which was given to the runner.
struct Sequence {
  std::vector<float> frames;
  std::vector<std::int32_t> tokens;
  std::int64_t steps = 0, given = 0;
  std::int32_t slot = -1;  ///< of the runner, while it has one
  PieceAnswer answer;      ///< to what was given
};

class PieceRunnerTest : public ::testing::TestWithParam<Case> {
 protected:
  std::int64_t draw(std::int64_t below) {
    return std::uniform_int_distribution<std::int64_t>(0, below - 1)(engine_);
  }

  Sequence random_sequence() {
    Sequence sequence;
    sequence.steps = 1 + draw(15);
    std::normal_distribution<float> normal;
    for (std::int64_t i = 0; i < sequence.steps; ++i) {
      sequence.tokens.push_back(static_cast<std::int32_t>(draw(kVocabulary)));
      for (std::int64_t j = 0; j < kFeatures; ++j) sequence.frames.push_back(normal(engine_));
    }
    return sequence;
  }

  Piece piece_of(const Sequence& sequence, std::int64_t steps) const {
    Piece piece{.slot = sequence.slot, .first = sequence.given == 0, .steps = steps};
    if (model_.features() == 0) {
      piece.tokens = std::span(sequence.tokens).subspan(index(sequence.given), index(steps));
    } else {
      piece.frames = std::span(sequence.frames)
                         .subspan(index(sequence.given * kFeatures), index(steps * kFeatures));
    }
    return piece;
  }

  static std::size_t index(std::int64_t at) { return static_cast<std::size_t>(at); }

  ModelOnDevice model_{GetParam().device, GetParam().kind};
  std::mt19937 engine_{3};
};

// Sequences come, go on by pieces of any length beside any others, leave and give their slots to
// new ones; what each is answered is what it is answered alone.
TEST_P(PieceRunnerTest, AnswersAsEachSequenceAlone) {
  PieceRunner runner = model_.runner(kCapacity);
  std::vector<std::int32_t> free_slots;
  for (std::int32_t slot = 0; slot < kCapacity.slots; ++slot) free_slots.push_back(slot);
  std::vector<Sequence> running;
  int ended = 0;
  while (ended < 60) {
    while (!free_slots.empty() && draw(3) > 0) {
      std::ranges::shuffle(free_slots, engine_);
      running.push_back(random_sequence());
      running.back().slot = free_slots.back();
      free_slots.pop_back();
    }
    std::ranges::shuffle(running, engine_);
    const std::int64_t count =
        std::min<std::int64_t>(draw(kCapacity.rows + 1), std::ssize(running));
    std::vector<Piece> pieces;
    for (std::int64_t i = 0; i < count; ++i) {
      const Sequence& sequence = running[index(i)];
      const std::int64_t most = std::min(kCapacity.time, sequence.steps - sequence.given);
      pieces.push_back(piece_of(sequence, 1 + draw(most)));
    }
    const std::vector<PieceAnswer> answers = runner.run(model_.context(), pieces);
    for (std::int64_t i = count - 1; i >= 0; --i) {
      Sequence& sequence = running[index(i)];
      sequence.answer.append(answers[index(i)]);
      sequence.given += pieces[index(i)].steps;
      if (sequence.given < sequence.steps) continue;
      expect_same(sequence.answer, model_.alone(sequence.frames, sequence.tokens),
                  GetParam().device);
      free_slots.push_back(sequence.slot);
      running.erase(running.begin() + i);
      ++ended;
    }
  }
}

TEST_P(PieceRunnerTest, RefusesWhatDoesNotFit) {
  PieceRunner runner = model_.runner(kCapacity);
  Sequence sequence = random_sequence();
  sequence.slot = static_cast<std::int32_t>(kCapacity.slots);
  const Piece beyond = piece_of(sequence, 1);
  EXPECT_THROW(runner.run(model_.context(), {&beyond, 1}), Error);
  sequence.slot = 0;
  Piece short_of_input = piece_of(sequence, 1);
  short_of_input.steps = 2;
  EXPECT_THROW(runner.run(model_.context(), {&short_of_input, 1}), Error);
  EXPECT_TRUE(runner.run(model_.context(), {}).empty());
}

TEST_P(PieceRunnerTest, RefusesCapacitiesBeforeItTakesMemory) {
  const auto refusal = [&](const PieceRunner::Capacity& capacity) {
    return message_of([&] { model_.runner(capacity); });
  };
  EXPECT_EQ(refusal({.slots = 0, .rows = 1, .time = 1}),
            "0 slots, 1 rows and 1 steps are no capacity; each must be 1 or more");
  EXPECT_EQ(refusal({.slots = 2147483647, .rows = 1, .time = 1}),
            "2147483647 slots, 1 rows and 1 steps are too many; each may be 2147483646 at most");
}

TEST(PieceRunnerModels, RefusesThoseThatNeedWholeSequences) {
  const auto device = runtime::open_device("test");
  const Context context(*device);
  const auto refusal = [&](const models::TaggerConfig& config, std::string_view reason) {
    models::Tagger model(config);
    model.parameters().allocate(context, runtime::DType::kFloat32, false);
    return message_of(
        [&] { PieceRunner(context, model, architecture_of(model), 0, kCapacity, reason); });
  };
  models::TaggerConfig config = tagger_config();
  config.output = "crf";
  EXPECT_EQ(refusal(config, config.refuse_parts()),
            "sequences can't run in pieces: the model scores all labels of a sentence together, by "
            "a CRF");
  config = tagger_config();
  config.bidirectional = true;
  EXPECT_EQ(refusal(config, ""),
            "sequences can't run in pieces: the model is bidirectional, so its first answer "
            "depends on the last step");
}

INSTANTIATE_TEST_SUITE_P(Devices, PieceRunnerTest, ::testing::ValuesIn(cases()), name_of);

}  // namespace
}  // namespace sluice::serving
