#include "api/c_models.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

namespace sluice::api {
namespace {

using c_api::read;
using c_api::require;

sluice_model::Any load(const std::string& kind, const std::string& path,
                       const Placement& placement) {
  if (kind == "features") return FeatureModel::load(path, placement);
  if (kind == "seq2seq") return SequenceModel::load(path, placement);
  if (kind == "language_model") return LanguageModel::load(path, placement);
  if (kind == "tagger") return Tagger::load(path, placement);
  if (kind == "classifier") return Classifier::load(path, placement);
  base::fail(ErrorCode::kUnsupported, "{} holds a model of the kind {}, which C can't run", path,
             kind);
}

FeatureModel& features_of(sluice_model* model) {
  require(model, "model");
  auto* features = std::get_if<FeatureModel>(&model->any);
  if (features == nullptr) {
    base::fail(ErrorCode::kInvalidArgument,
               "the model is of the kind {}, which takes texts; give them to sluice_model_text",
               model->kind);
  }
  return *features;
}

/// Puts the sequence of a state in place, and that of another away.
FeatureModel& resume(sluice_model_state* state) {
  require(state, "state");
  sluice_model& model = *state->model;
  FeatureModel& features = features_of(&model);
  if (model.current == state) return features;
  if (model.current != nullptr) {
    model.current->bytes = features.state();
    model.current = nullptr;
  }
  if (state->bytes.empty()) {
    features.begin_sequence();
  } else {
    features.set_state(state->bytes);
  }
  model.current = state;
  return features;
}

std::span<const float> frames_of(const FeatureModel& model, const float* frames,
                                 std::int64_t time) {
  constexpr std::int64_t kMostNumbers = std::int64_t{1} << 40;
  SLUICE_CHECK(time >= 0 && time <= kMostNumbers / model.features(),
               "{} frames can't be; give 0 or more", time);
  if (time > 0) require(frames, "frames");
  return {frames, static_cast<std::size_t>(time * model.features())};
}

std::span<float> answers_of(float* answers, std::int64_t count, std::int64_t wanted) {
  SLUICE_CHECK(count == wanted, "answers has room for {} numbers, not {}", count, wanted);
  if (wanted > 0) require(answers, "answers");
  return {answers, static_cast<std::size_t>(wanted)};
}

/// 0 stands for the default.
template <typename Number, typename Given>
void set(Number& number, Given given) {
  if (given != 0) number = static_cast<Number>(given);
}

SampleOptions sample_of(const sluice_text_options& given) {
  SampleOptions sample;
  set(sample.samples, given.nbest);
  set(sample.temperature, given.temperature);
  set(sample.top_k, given.top_k);
  set(sample.top_p, given.top_p);
  set(sample.seed, given.seed);
  sample.without_replacement = given.without_replacement != 0;
  return sample;
}

std::vector<std::string> texts_of(const char* const* texts, std::int64_t count, const char* name) {
  SLUICE_CHECK(count >= 0, "{}_count is {}; it must be at least 0", name, count);
  if (count > 0) require(texts, name);
  std::vector<std::string> all;
  for (std::int64_t i = 0; i < count; ++i) {
    require(texts[i], name);
    all.emplace_back(texts[i]);
  }
  return all;
}

std::string answer(SequenceModel& model, const std::string& input,
                   const sluice_text_options& given) {
  SLUICE_CHECK(given.sample != 0 || given.without_replacement == 0,
               "without_replacement is of drawing; set sample");
  DecodeOptions options;
  set(options.beam, given.beam);
  set(options.nbest, given.nbest);
  set(options.max_length, given.max_length);
  if (given.sample != 0) options.sample = sample_of(given);
  options.banned = texts_of(given.banned, given.banned_count, "banned");
  options.no_repeat = given.no_repeat;
  if (given.forced_count != 0) {
    options.forced = {texts_of(given.forced, given.forced_count, "forced")};
  }
  options.coverage_penalty = given.coverage_penalty;
  set(options.groups, given.groups);
  set(options.diversity, given.diversity);
  return to_json(model.decode({&input, 1}, options).front(), 1);
}

std::string answer(LanguageModel& model, const std::string& input,
                   const sluice_text_options& given) {
  SLUICE_CHECK(
      model.features() == 0,
      "the model writes texts about vectors, which C can't give; use LanguageModel of C++");
  GenerateOptions options;
  options.prefix = input;
  options.sample = sample_of(given);
  set(options.max_length, given.max_length);
  options.banned = texts_of(given.banned, given.banned_count, "banned");
  options.no_repeat = given.no_repeat;
  SLUICE_CHECK(given.coverage_penalty == 0,
               "coverage_penalty is {}, but a language model attends to no source; take 0",
               given.coverage_penalty);
  SLUICE_CHECK(given.beam != 0 || (given.forced_count == 0 && given.groups == 0),
               "forced words and groups are of a search; set beam");
  if (given.beam != 0) {
    options.search = BeamOptions{.beam = given.beam};
    set(options.search->nbest, given.nbest);
    set(options.search->groups, given.groups);
    set(options.search->diversity, given.diversity);
    options.search->forced = texts_of(given.forced, given.forced_count, "forced");
  }
  nlohmann::ordered_json texts = nlohmann::ordered_json::array();
  for (const Hypothesis& text : model.generate(options)) {
    texts.push_back(nlohmann::ordered_json::parse(to_json(text)));
  }
  return nlohmann::ordered_json{{"texts", std::move(texts)}}.dump();
}

std::string answer(Tagger& model, const std::string& input, const sluice_text_options&) {
  std::vector<std::string> tokens;
  std::istringstream words(input);
  for (std::string word; words >> word;) tokens.push_back(word);
  return to_json(model.tag({&tokens, 1}).front());
}

std::string answer(Classifier& model, const std::string& input, const sluice_text_options&) {
  const Classified classified = model.classify({&input, 1}).front();
  nlohmann::ordered_json probabilities;
  for (std::size_t i = 0; i < classified.probabilities.size(); ++i) {
    probabilities[model.labels()[i]] = classified.probabilities[i];
  }
  return nlohmann::ordered_json{{"label", model.labels()[classified.label]},
                                {"probability", classified.probabilities[classified.label]},
                                {"probabilities", std::move(probabilities)}}
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string answer(FeatureModel&, const std::string&, const sluice_text_options&) {
  base::fail(ErrorCode::kInvalidArgument,
             "the model takes frames, not texts; give them to sluice_model_run");
}

}  // namespace
}  // namespace sluice::api

using namespace sluice::api;
using sluice::c_api::guarded;

sluice_status sluice_model_load(const char* path, const sluice_model_options* options,
                                sluice_model** model, sluice_error* error) {
  return guarded(error, [&] {
    require(path, "path");
    require(model, "model");
    *model = nullptr;
    sluice::Placement placement;
    if (options != nullptr) {
      const sluice_model_options own = read(options, "options");
      if (own.device != nullptr) placement.device = own.device;
      if (own.precision != nullptr) placement.precision = own.precision;
    }
    std::string kind = sluice::kind_of_model(path);
    auto any = load(kind, path, placement);
    *model = new sluice_model{std::move(kind), std::move(any)};
  });
}

void sluice_model_destroy(sluice_model* model) { delete model; }

const char* sluice_model_kind(const sluice_model* model) {
  return model == nullptr ? "" : model->kind.c_str();
}

std::int64_t sluice_model_features(const sluice_model* model) {
  const auto* features =
      model == nullptr ? nullptr : std::get_if<sluice::FeatureModel>(&model->any);
  return features == nullptr ? 0 : features->features();
}

std::int64_t sluice_model_outputs(const sluice_model* model) {
  const auto* features =
      model == nullptr ? nullptr : std::get_if<sluice::FeatureModel>(&model->any);
  return features == nullptr ? 0 : features->outputs();
}

int sluice_model_answers_each_frame(const sluice_model* model) {
  const auto* features =
      model == nullptr ? nullptr : std::get_if<sluice::FeatureModel>(&model->any);
  return features != nullptr && features->answers_each_frame() ? 1 : 0;
}

sluice_status sluice_model_run(sluice_model* model, const float* frames, std::int64_t time,
                               float* answers, std::int64_t answers_count, sluice_error* error) {
  return guarded(error, [&] {
    sluice::FeatureModel& features = features_of(model);
    const std::int64_t count = features.answers_each_frame() ? time : 1;
    const auto numbers = frames_of(features, frames, time);
    const auto room = answers_of(answers, answers_count, count * features.outputs());
    const sluice::Frames sequence{features.features(), {numbers.begin(), numbers.end()}};
    const std::vector<sluice::Frames> given = features.run({&sequence, 1});
    std::copy(given.front().values.begin(), given.front().values.end(), room.begin());
  });
}

sluice_status sluice_model_state_create(sluice_model* model, sluice_model_state** state,
                                        sluice_error* error) {
  return guarded(error, [&] {
    require(state, "state");
    *state = nullptr;
    const std::string reason = features_of(model).refuse_parts();
    SLUICE_CHECK(reason.empty(), "{}", reason);
    *state = new sluice_model_state{model, {}};
  });
}

void sluice_model_state_destroy(sluice_model_state* state) { delete state; }

sluice_status sluice_model_state_reset(sluice_model_state* state, sluice_error* error) {
  return guarded(error, [&] {
    require(state, "state");
    state->bytes.clear();
    if (state->model->current == state) features_of(state->model).begin_sequence();
  });
}

sluice_status sluice_model_state_save(sluice_model_state* state, const char* path,
                                      sluice_error* error) {
  return guarded(error, [&] {
    require(path, "path");
    resume(state).save_state(path);
  });
}

sluice_status sluice_model_state_load(sluice_model_state* state, const char* path,
                                      sluice_error* error) {
  return guarded(error, [&] {
    require(path, "path");
    resume(state).load_state(path);
  });
}

sluice_status sluice_model_step(sluice_model_state* state, const float* frames, std::int64_t time,
                                float* answers, std::int64_t answers_count, sluice_error* error) {
  return guarded(error, [&] {
    sluice::FeatureModel& model = resume(state);
    const auto numbers = frames_of(model, frames, time);
    model.run_part(numbers, answers_of(answers, answers_count, time * model.outputs()));
  });
}

sluice_status sluice_model_text(sluice_model* model, const char* input,
                                const sluice_text_options* options, char** json,
                                sluice_error* error) {
  return guarded(error, [&] {
    require(model, "model");
    require(input, "input");
    require(json, "json");
    *json = nullptr;
    const sluice_text_options own =
        options == nullptr ? sluice_text_options{} : read(options, "options");
    const std::string text =
        std::visit([&](auto& any) { return answer(any, input, own); }, model->any);
    auto copy = std::make_unique<char[]>(text.size() + 1);
    std::memcpy(copy.get(), text.c_str(), text.size() + 1);
    *json = copy.release();
  });
}

void sluice_text_free(char* text) { delete[] text; }
