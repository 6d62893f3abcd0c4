#include "serving/piece_runner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "models/features.h"
#include "models/sequence_stream.h"
#include "models/tagger.h"
#include "unit/support/on_device.h"

namespace sluice::serving {
namespace {

constexpr std::int64_t kFeatures = 3, kVocabulary = 17;
constexpr PieceRunner::Capacity kCapacity{.slots = 11, .rows = 6, .time = 4};

std::unique_ptr<models::Model> make_model(const std::string& kind) {
  if (kind == "tagger") {
    models::TaggerConfig config;
    config.vocabulary = kVocabulary;
    config.labels = 9;
    config.embedding = 7;
    config.hidden = 10;
    config.layers = 2;
    config.cell = "gru";
    config.bidirectional = false;
    config.output = "softmax";
    return std::make_unique<models::Tagger>(config);
  }
  models::FeaturesConfig config;
  config.features = kFeatures;
  config.stack.layers = 2;
  config.stack.hidden = 10;
  config.stack.bidirectional = false;
  if (kind == "uneven") config.stack.widths = {6, 9};
  if (kind == "projected") config.stack.projections = {4, 5};
  if (kind == "gru") config.stack.cell = "gru";
  config.outputs = 2;
  return std::make_unique<models::Features>(config);
}

const kernels::recurrent::Descriptor& architecture_of(const models::Model& model) {
  if (const auto* tagger = dynamic_cast<const models::Tagger*>(&model)) {
    return tagger->stack().architecture();
  }
  return dynamic_cast<const models::Features&>(model).stack().architecture();
}

/// A sequence of random input, some of which was given to the runner.
struct Sequence {
  std::vector<float> frames;
  std::vector<std::int32_t> tokens;
  std::int64_t steps = 0, given = 0;
  std::int32_t slot = -1;  ///< of the runner, while it has one
  PieceAnswer answer;      ///< to what was given
};

struct Case {
  const char* device;
  const char* kind;
};

class PieceRunnerTest : public ::testing::TestWithParam<Case> {
 protected:
  PieceRunnerTest()
      : device_(runtime::open_device(GetParam().device)),
        context_(*device_),
        model_(make_model(GetParam().kind)) {
    model_->parameters().allocate(context_, runtime::DType::kFloat32, false);
    model_->parameters().initialize(context_, 5);
    auto host = context_.download<float>(model_->parameters().values());
    for (float& value : host) value *= 5;  // so that what came before shows
    context_.upload<float>(model_->parameters().values(), host);
  }

  std::int64_t features() const { return model_->kind() == "tagger" ? 0 : kFeatures; }

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
    if (features() == 0) {
      piece.tokens = std::span(sequence.tokens).subspan(index(sequence.given), index(steps));
    } else {
      piece.frames = std::span(sequence.frames)
                         .subspan(index(sequence.given * kFeatures), index(steps * kFeatures));
    }
    return piece;
  }

  /// The answers to the whole sequence, alone.
  PieceAnswer expected(const Sequence& sequence) {
    runtime::PackedWeights weights;
    models::SequenceStream stream(context_, *model_, architecture_of(*model_), sequence.steps,
                                  weights);
    const runtime::Buffer memory(*device_, sequence.frames.size() * sizeof(float));
    if (features() == 0) {
      const Tensor source = memory.tensor(runtime::DType::kInt32, {sequence.steps, 1});
      context_.upload<std::int32_t>(source, sequence.tokens);
      return {.values = {},
              .labels = context_.download<std::int32_t>(stream.run(context_, source))};
    }
    const Tensor source = memory.tensor(runtime::DType::kFloat32, {sequence.steps, 1, kFeatures});
    context_.upload<float>(source, sequence.frames);
    return {.values = context_.download<float>(stream.run(context_, source)), .labels = {}};
  }

  static std::size_t index(std::int64_t at) { return static_cast<std::size_t>(at); }

  std::unique_ptr<runtime::Device> device_;
  runtime::Context context_;
  std::unique_ptr<models::Model> model_;
  std::mt19937 engine_{3};
};

void append(PieceAnswer& answer, const PieceAnswer& more) {
  answer.values.insert(answer.values.end(), more.values.begin(), more.values.end());
  answer.labels.insert(answer.labels.end(), more.labels.begin(), more.labels.end());
}

// Sequences come, go on by pieces of any length beside any others, leave and give their slots to
// new ones; what each is answered is what it is answered alone.
TEST_P(PieceRunnerTest, AnswersAsEachSequenceAlone) {
  PieceRunner runner(context_, *model_, architecture_of(*model_), features(), kCapacity);
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
    const std::vector<PieceAnswer> answers = runner.run(context_, pieces);
    for (std::int64_t i = count - 1; i >= 0; --i) {
      Sequence& sequence = running[index(i)];
      append(sequence.answer, answers[index(i)]);
      sequence.given += pieces[index(i)].steps;
      if (sequence.given < sequence.steps) continue;
      const PieceAnswer alone = expected(sequence);
      EXPECT_EQ(sequence.answer.labels, alone.labels);
      ASSERT_EQ(sequence.answer.values.size(), alone.values.size());
      for (std::size_t j = 0; j < alone.values.size(); ++j) {
        // The order of sums depends on the rows of a batch; the test device's doesn't.
        const double tolerance = std::string(GetParam().device) == "test" ? 0 : 1e-5;
        ASSERT_NEAR(sequence.answer.values[j], alone.values[j], tolerance);
      }
      free_slots.push_back(sequence.slot);
      running.erase(running.begin() + i);
      ++ended;
    }
  }
}

TEST_P(PieceRunnerTest, RefusesWhatDoesNotFit) {
  PieceRunner runner(context_, *model_, architecture_of(*model_), features(), kCapacity);
  Sequence sequence = random_sequence();
  sequence.slot = static_cast<std::int32_t>(kCapacity.slots);
  const Piece beyond = piece_of(sequence, 1);
  EXPECT_THROW(runner.run(context_, {&beyond, 1}), Error);
  sequence.slot = 0;
  Piece short_of_input = piece_of(sequence, 1);
  short_of_input.steps = 2;
  EXPECT_THROW(runner.run(context_, {&short_of_input, 1}), Error);
  EXPECT_TRUE(runner.run(context_, {}).empty());
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const char* device : sluice::testing::device_names()) {
    for (const char* kind : {"lstm", "gru", "uneven", "projected", "tagger"}) {
      all.push_back({device, kind});
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Devices, PieceRunnerTest, ::testing::ValuesIn(cases()),
                         [](const auto& tested) {
                           std::string name = tested.param.device;
                           std::ranges::replace(name, ':', '_');
                           return name + "_" + tested.param.kind;
                         });

}  // namespace
}  // namespace sluice::serving
