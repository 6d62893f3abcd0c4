#include <sluice_models.h>

#include <limits>
#include <memory>

#include "sluice/language_model.h"
#include "unit/api/trained_models.h"

namespace sluice {
namespace {

using Model = std::unique_ptr<sluice_model, decltype(&sluice_model_destroy)>;
using Handle = std::unique_ptr<sluice_beam, decltype(&sluice_beam_destroy)>;
using Ids = std::vector<std::int32_t>;

/// A beam search by the C API, and by the C++ API, which it must agree with to the bit.
class CBeam : public TrainedModels {
 protected:
  static void SetUpTestSuite() {
    TrainedModels::SetUpTestSuite();
    train("text", "text", "a b c a b c\nb c a b\nc a b c a\n", "kind = \"language_model\"\n");
    train("tags", "conll", "mr\tO\nann\tB-per\n\n", "kind = \"tagger\"\n");
  }
  Model load(const std::string& name) {
    sluice_model_options options = SLUICE_INIT(sluice_model_options);
    options.device = GetParam();
    sluice_model* model = nullptr;
    EXPECT_EQ(sluice_model_load(checkpoint(name).c_str(), &options, &model, &error_), SLUICE_OK)
        << error_.message;
    return {model, sluice_model_destroy};
  }
  Handle search(sluice_model* model, const sluice_beam_start& start,
                const sluice_beam_options& options) {
    sluice_beam* beam = nullptr;
    status_ = sluice_model_beam(model, &start, &options, &beam, &error_);
    return {beam, sluice_beam_destroy};
  }

  sluice_status status_ = SLUICE_OK;
  sluice_error error_ = SLUICE_INIT(sluice_error);
};

TEST_P(CBeam, AgreesWithCpp) {
  const Model model = load("text");
  LanguageModel other = LanguageModel::load(checkpoint("text"), placement());
  const std::vector<std::string> texts{"a", "b c"};
  const RowStates states = other.read(texts);
  std::int64_t shape[3];
  ASSERT_EQ(sluice_model_state_shape(model.get(), shape, &error_), SLUICE_OK);
  ASSERT_EQ(shape[0] * 2 * shape[1], std::ssize(states.h));
  ASSERT_EQ(shape[0] * 2 * shape[2], std::ssize(states.c));
  const std::vector<double> scores{-1, -std::numeric_limits<double>::infinity()};
  std::vector<std::uint8_t> allowed(static_cast<std::size_t>(other.vocabulary_size()), 1);
  allowed.back() = 0;

  sluice_beam_start start = SLUICE_INIT(sluice_beam_start);
  start.inputs = 2;
  start.h = states.h.data();
  start.c = states.c.data();
  start.tokens = states.tokens.data();
  start.scores = scores.data();
  sluice_beam_options options = SLUICE_INIT(sluice_beam_options);
  options.steps = 5;
  options.beam = 3;
  options.allowed = allowed.data();
  const Handle found = search(model.get(), start, options);
  ASSERT_EQ(status_, SLUICE_OK) << error_.message;

  BeamStart of_cpp;
  of_cpp.inputs = 2;
  of_cpp.h = states.h;
  of_cpp.c = states.c;
  of_cpp.tokens = states.tokens;
  of_cpp.scores = scores;
  BeamStepOptions with;
  with.steps = 5;
  with.beam = 3;
  with.allowed = allowed;
  const Beam expected = other.beam(of_cpp, with);

  const std::int64_t steps = sluice_beam_steps(found.get());
  ASSERT_EQ(steps, expected.steps());
  const auto count = static_cast<std::size_t>(steps * 6);
  Ids tokens(count), parents(count);
  std::vector<double> sums(count);
  ASSERT_EQ(sluice_beam_choices(found.get(), tokens.data(), parents.data(), sums.data(), steps * 6,
                                &error_),
            SLUICE_OK);
  EXPECT_EQ(tokens, expected.tokens());
  EXPECT_EQ(parents, expected.parents());
  EXPECT_EQ(sums, expected.scores());
  EXPECT_EQ(sluice_beam_choices(found.get(), nullptr, nullptr, sums.data(), 5, &error_),
            SLUICE_INVALID_ARGUMENT);

  const RowStates last = expected.states();
  std::vector<float> h(last.h.size()), c(last.c.size());
  Ids next(last.tokens.size());
  ASSERT_EQ(sluice_beam_states(found.get(), h.data(), std::ssize(h), c.data(), std::ssize(c),
                               next.data(), std::ssize(next), &error_),
            SLUICE_OK);
  EXPECT_EQ(h, last.h);
  EXPECT_EQ(c, last.c);
  EXPECT_EQ(next, last.tokens);

  const auto finished = expected.finished();
  for (std::int64_t i = 0; i < 2; ++i) {
    const auto& of_input = finished[static_cast<std::size_t>(i)];
    ASSERT_EQ(sluice_beam_finished_count(found.get(), i), std::ssize(of_input));
    for (std::int64_t j = 0; j < std::ssize(of_input); ++j) {
      sluice_finished one = SLUICE_INIT(sluice_finished);
      ASSERT_EQ(sluice_beam_finished(found.get(), i, j, &one, &error_), SLUICE_OK);
      const FinishedSequence& same = of_input[static_cast<std::size_t>(j)];
      EXPECT_EQ(Ids(one.tokens, one.tokens + one.length), same.tokens);
      EXPECT_EQ(one.text, same.text);
      EXPECT_EQ(one.score, same.score);
      EXPECT_EQ(one.row, same.row);
    }
  }
  EXPECT_GT(sluice_beam_finished_count(found.get(), 0), 0);
  // No sequence was there to go on with.
  EXPECT_EQ(sluice_beam_finished_count(found.get(), 1), 0);
  EXPECT_EQ(sluice_beam_finished_count(found.get(), 2), -1);
}

TEST_P(CBeam, RefusesInOneSentence) {
  const Model model = load("text"), tags = load("tags");
  sluice_beam_start start = SLUICE_INIT(sluice_beam_start);
  sluice_beam_options options = SLUICE_INIT(sluice_beam_options);
  start.inputs = 1;
  options.steps = 1;
  const auto refused = [&](sluice_model* of) {
    const Handle none = search(of, start, options);
    EXPECT_EQ(none, nullptr);
    EXPECT_EQ(status_, SLUICE_INVALID_ARGUMENT);
    return std::string(error_.message);
  };
  EXPECT_EQ(refused(tags.get()),
            "the model is of the kind tagger; a beam search from states takes a language_model");
  EXPECT_EQ(refused(nullptr), "model is NULL");
  start.inputs = std::int64_t{1} << 62;
  EXPECT_NE(refused(model.get()).find("inputs is"), std::string::npos);
  start.inputs = 1;
  options.beam = std::int64_t{1} << 62;
  EXPECT_NE(refused(model.get()).find("beam is"), std::string::npos);
  options.beam = 0;
  options.steps = -1;
  EXPECT_NE(refused(model.get()).find("steps is -1"), std::string::npos);
  options.steps = 1;
  const std::uint8_t byte = 0;
  options.allowed = &byte;
  options.mask_inputs = 7;
  EXPECT_NE(refused(model.get()).find("mask_inputs is 7"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Devices, CBeam, testing::devices(), testing::device_name);

}  // namespace
}  // namespace sluice
