#include <sluice_models.h>

#include <cmath>
#include <memory>

#include "sluice/classifier.h"
#include "sluice/feature_model.h"
#include "sluice/language_model.h"
#include "sluice/sequence_model.h"
#include "sluice/tagger.h"
#include "unit/api/trained_models.h"

namespace sluice {
namespace {

using Model = std::unique_ptr<sluice_model, decltype(&sluice_model_destroy)>;
using State = std::unique_ptr<sluice_model_state, decltype(&sluice_model_state_destroy)>;
using Numbers = std::vector<float>;

Numbers frames(std::int64_t time, float seed) {
  Numbers result;
  for (std::int64_t i = 0; i < 2 * time; ++i) {
    result.push_back(std::sin(seed + 1.7F * static_cast<float>(i)));
  }
  return result;
}

/// Models of every kind, by the C API and by the C++ API, which it must agree with to the bit.
class CModels : public TrainedModels {
 protected:
  static void SetUpTestSuite() {
    TrainedModels::SetUpTestSuite();
    folder_->write("in.npy", testing::npy_file({12, 2}, frames(12, 0)));
    folder_->write("many.npy", testing::npy_file({4, 3, 2}, frames(12, 0)));
    folder_->write("one_each.npy", testing::npy_file({4}, std::vector<std::int32_t>{0, 1, 1, 0}));
    const std::string begin = "[training]\nmax_steps = 5\n[data]\nfeatures = \"";
    const std::string end = "\"\n[model]\nkind = \"features\"\nhidden = 6\n";
    train("values", begin + at("in.npy") + "\"\ntargets = \"" + at("in.npy") + end +
                        "bidirectional = false\n");
    train("pooled", begin + at("many.npy") + "\"\ntargets = \"" + at("one_each.npy") + end +
                        "target = \"classes\"\npooling = \"mean\"\n");
    train("reverse", "tsv", "a b\tb a\nb c\tc b\na c b\tb c a\nc\tc\n", "embedding = 6\n");
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
  State state_of(const Model& model) {
    sluice_model_state* state = nullptr;
    EXPECT_EQ(sluice_model_state_create(model.get(), &state, &error_), SLUICE_OK) << error_.message;
    return {state, sluice_model_state_destroy};
  }
  Numbers run(const Model& model, const Numbers& x, std::int64_t answers) {
    Numbers y(static_cast<std::size_t>(answers * sluice_model_outputs(model.get())), -1);
    EXPECT_EQ(sluice_model_run(model.get(), x.data(), static_cast<std::int64_t>(x.size() / 2),
                               y.data(), static_cast<std::int64_t>(y.size()), &error_),
              SLUICE_OK)
        << error_.message;
    return y;
  }
  /// Answers to frames [begin, end) of x.
  Numbers step(const State& state, const Numbers& x, std::int64_t begin, std::int64_t end) {
    Numbers y(static_cast<std::size_t>(2 * (end - begin)), -1);
    EXPECT_EQ(sluice_model_step(state.get(), x.data() + 2 * begin, end - begin, y.data(),
                                static_cast<std::int64_t>(y.size()), &error_),
              SLUICE_OK)
        << error_.message;
    return y;
  }
  std::string text(const Model& model, const std::string& input,
                   const sluice_text_options* options = nullptr) {
    char* json = nullptr;
    EXPECT_EQ(sluice_model_text(model.get(), input.c_str(), options, &json, &error_), SLUICE_OK)
        << error_.message;
    const std::string result = json == nullptr ? "" : json;
    sluice_text_free(json);
    return result;
  }

  sluice_error error_ = SLUICE_INIT(sluice_error);
};
INSTANTIATE_TEST_SUITE_P(Devices, CModels, testing::devices(), testing::device_name);

TEST_P(CModels, RunWholeSequences) {
  const Model values = load("values"), pooled = load("pooled");
  EXPECT_STREQ(sluice_model_kind(values.get()), "features");
  EXPECT_EQ(sluice_model_features(values.get()), 2);
  EXPECT_EQ(sluice_model_answers_each_frame(values.get()), 1);
  EXPECT_EQ(sluice_model_answers_each_frame(pooled.get()), 0);
  const Frames sequence{2, frames(7, 3)};
  const auto by_cpp = [&](const char* name) {
    return FeatureModel::load(checkpoint(name), placement()).run({&sequence, 1}).at(0).values;
  };
  EXPECT_EQ(run(values, sequence.values, 7), by_cpp("values"));
  EXPECT_EQ(run(pooled, sequence.values, 1), by_cpp("pooled"));
}

TEST_P(CModels, StepThroughSequencesInTurns) {
  const Model model = load("values");
  const State first = state_of(model), second = state_of(model);
  const Numbers x = frames(6, 1), z = frames(6, 2);
  const Numbers whole_x = run(model, x, 6), whole_z = run(model, z, 6);
  Numbers y, w;
  for (std::int64_t t = 0; t < 6; t += 2) {
    for (const float value : step(first, x, t, t + 2)) y.push_back(value);
    for (const float value : step(second, z, t, t + 2)) w.push_back(value);
  }
  for (std::size_t i = 0; i < y.size(); ++i) {
    EXPECT_NEAR(y[i], whole_x[i], 1e-5) << i;
    EXPECT_NEAR(w[i], whole_z[i], 1e-5) << i;
  }
  // From the beginning again, beside another that is in the middle.
  EXPECT_EQ(sluice_model_state_reset(first.get(), &error_), SLUICE_OK);
  EXPECT_EQ(step(first, x, 0, 2), Numbers(y.begin(), y.begin() + 4));
}

TEST_P(CModels, StatesGoThroughFiles) {
  const Model model = load("values");
  const Numbers x = frames(6, 1);
  const State state = state_of(model);
  step(state, x, 0, 4);
  const std::string file = at("half.state");
  EXPECT_EQ(sluice_model_state_save(state.get(), file.c_str(), &error_), SLUICE_OK);
  const Numbers rest = step(state, x, 4, 6);
  const State other = state_of(model);
  EXPECT_EQ(sluice_model_state_load(other.get(), file.c_str(), &error_), SLUICE_OK);
  EXPECT_EQ(step(other, x, 4, 6), rest);
  EXPECT_EQ(sluice_model_state_load(other.get(), at("none").c_str(), &error_), SLUICE_NOT_FOUND);
}

TEST_P(CModels, AnswerTextsInJson) {
  const std::string input = "a b";
  EXPECT_EQ(
      text(load("reverse"), input),
      to_json(SequenceModel::load(checkpoint("reverse"), placement()).decode({&input, 1}).front(),
              1));
  const std::vector<std::string> tokens{"mr", "ann"};
  EXPECT_EQ(text(load("tags"), "mr ann"),
            to_json(Tagger::load(checkpoint("tags"), placement()).tag({&tokens, 1}).front()));
  sluice_text_options options = SLUICE_INIT(sluice_text_options);
  options.nbest = 2;
  options.seed = 7;
  options.max_length = 5;
  GenerateOptions generate;
  generate.prefix = "a";
  generate.max_length = 5;
  generate.sample.samples = 2;
  generate.sample.seed = 7;
  std::string expected;
  for (const Hypothesis& one :
       LanguageModel::load(checkpoint("text"), placement()).generate(generate)) {
    expected += (expected.empty() ? "" : ",") + to_json(one);
  }
  EXPECT_EQ(text(load("text"), "a", &options), "{\"texts\":[" + expected + "]}");
}

TEST_P(CModels, HoldTextsToWords) {
  const char* banned[] = {"c a"};
  const char* forced[] = {"b b"};
  sluice_text_options options = SLUICE_INIT(sluice_text_options);
  options.beam = 6;
  options.nbest = 3;
  options.max_length = 6;
  options.banned = banned;
  options.forced = forced;
  options.banned_count = options.forced_count = 1;
  options.no_repeat = 3;
  options.groups = 2;
  options.diversity = 0.25;
  GenerateOptions generate;
  generate.prefix = "a";
  generate.max_length = 6;
  generate.banned = {"c a"};
  generate.no_repeat = 3;
  generate.search =
      BeamOptions{.beam = 6, .nbest = 3, .groups = 2, .diversity = 0.25, .forced = {"b b"}};
  std::string expected;
  for (const Hypothesis& one :
       LanguageModel::load(checkpoint("text"), placement()).generate(generate)) {
    expected += (expected.empty() ? "" : ",") + to_json(one);
  }
  EXPECT_NE(expected, "");
  const Model model = load("text");
  EXPECT_EQ(text(model, "a", &options), "{\"texts\":[" + expected + "]}");
  const auto said = [&] {
    char* json = nullptr;
    EXPECT_NE(sluice_model_text(model.get(), "a", &options, &json, &error_), SLUICE_OK);
    return std::string(error_.message);
  };
  options.coverage_penalty = 0.5;
  EXPECT_NE(said().find("attends to no source"), std::string::npos) << said();
  options.coverage_penalty = 0;
  options.without_replacement = 1;
  EXPECT_NE(said().find("can't draw without replacement"), std::string::npos) << said();
  options.without_replacement = 0;
  options.beam = 0;
  EXPECT_NE(said().find("are of a search; set beam"), std::string::npos) << said();
  options.forced_count = -1;
  options.beam = 6;
  EXPECT_NE(said().find("forced_count is -1"), std::string::npos) << said();
}

TEST_P(CModels, RefuseOptionsThatDoNotGoTogether) {
  const Model model = load("reverse");
  const auto said = [&](const auto& set) {
    sluice_text_options options = SLUICE_INIT(sluice_text_options);
    set(options);
    char* json = nullptr;
    EXPECT_EQ(sluice_model_text(model.get(), "a b", &options, &json, &error_),
              SLUICE_INVALID_ARGUMENT);
    return std::string(error_.message);
  };
  using O = sluice_text_options;
  EXPECT_EQ(said([](O& o) { o.without_replacement = 1; }),
            "without_replacement is of drawing; set sample");
  EXPECT_NE(said([](O& o) { o.sample = 1, o.groups = 2; }).find("groups is 2"), std::string::npos);
  EXPECT_NE(
      said([](O& o) { o.sample = 1, o.coverage_penalty = 0.5; }).find("coverage_penalty is 0.5"),
      std::string::npos);
}

TEST_P(CModels, RefuseInOneSentence) {
  const Model values = load("values"), pooled = load("pooled"), tags = load("tags");
  Numbers x = frames(3, 0), y(6);
  const auto said = [&](sluice_status status) {
    EXPECT_NE(status, SLUICE_OK);
    return std::string(error_.message);
  };
  EXPECT_EQ(said(sluice_model_run(values.get(), x.data(), 3, y.data(), 5, &error_)),
            "answers has room for 5 numbers, not 6");
  EXPECT_EQ(said(sluice_model_run(values.get(), x.data(), -1, y.data(), 6, &error_)),
            "-1 frames can't be; give 0 or more");
  EXPECT_EQ(said(sluice_model_run(values.get(), nullptr, 3, y.data(), 6, &error_)),
            "frames is NULL");
  EXPECT_EQ(said(sluice_model_run(tags.get(), x.data(), 3, y.data(), 6, &error_)),
            "the model is of the kind tagger, which takes texts; give them to sluice_model_text");
  sluice_model_state* state = nullptr;
  EXPECT_NE(said(sluice_model_state_create(pooled.get(), &state, &error_)), "");
  char* json = nullptr;
  EXPECT_EQ(said(sluice_model_text(values.get(), "a", nullptr, &json, &error_)),
            "the model takes frames, not texts; give them to sluice_model_run");
  x[3] = NAN;
  EXPECT_NE(said(sluice_model_run(values.get(), x.data(), 3, y.data(), 6, &error_)).find("finite"),
            std::string::npos);
  sluice_model* model = nullptr;
  EXPECT_EQ(sluice_model_load(at("none").c_str(), nullptr, &model, &error_), SLUICE_NOT_FOUND);
  EXPECT_EQ(model, nullptr);
}

}  // namespace
}  // namespace sluice
