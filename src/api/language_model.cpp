#include "sluice/language_model.h"

#include "api/answer_search.h"
#include "api/beam_search.h"
#include "api/kept_plans.h"
#include "api/loaded_model.h"
#include "api/recording.h"
#include "api/scoring.h"
#include "api/text_generation.h"
#include "api/text_segmentation.h"
#include "api/tokenize.h"
#include "api/wording.h"
#include "base/check.h"
#include "data/feature_vectors.h"
#include "data/text_corpus.h"
#include "models/language_model.h"
#include "runtime/threads.h"
#include "training/checkpoint.h"

namespace sluice {

struct LanguageModel::State {
  State(const std::string& path_in, const Placement& placement_in, const SegmenterChoice& choice)
      : path(path_in),
        placement(placement_in),
        device(runtime::open_device(placement.device)),
        context(api::context_on(*device, placement, path_in)),
        loaded(model_files::load_model(context, path_in)),
        kept(placement, *loaded.model),
        segmentation(path_in, training::run_config(loaded), choice) {
    api::require_kind(path, loaded, models::LanguageModelConfig::kKind);
    runtime::use_threads(context, 0);
  }

  const models::LanguageModel& model() const {
    return dynamic_cast<const models::LanguageModel&>(*loaded.model);
  }
  std::vector<Hypothesis> generate(const GenerateOptions& options, api::TextStates states);
  /// Of the model, whose weights stay as they are: made once.
  const std::string& identity() {
    if (saved_with.empty()) saved_with = decoding::identity_of(context, model());
    return saved_with;
  }

  std::string path;
  Placement placement;
  std::unique_ptr<runtime::Device> device;
  runtime::Context context;
  model_files::LoadedModel loaded;
  api::KeptPlans kept;
  api::TextSegmentation segmentation;
  std::string saved_with;
  api::Recording recording;
};

std::vector<Hypothesis> LanguageModel::State::generate(const GenerateOptions& options,
                                                       api::TextStates states) {
  const data::Tokenizer& tokenizer = *loaded.tokenizers.target;
  api::TextGeneration::Texts given;
  if (!options.prefix.empty()) {
    const auto segmented = segmentation.target({&options.prefix, 1});
    given.prefix =
        api::tokenize_prefix(segmented.front(), fmt::format("the prefix '{}'", options.prefix),
                             tokenizer, options.max_length);
  }
  const auto segmented = [&](const std::vector<std::string>& words) {
    return words.empty() ? words : segmentation.target(words);
  };
  given.constraints = api::tokenize_banned(segmented(options.banned), options.no_repeat, tokenizer);
  if (options.search) {
    given.forced =
        api::tokenize_forced(segmented(options.search->forced), "", tokenizer, given.constraints);
  }
  api::TextGeneration generation(context, model(), kept, options, std::move(states),
                                 std::move(given));
  std::vector<Hypothesis> texts;
  for (const decoding::Hypothesis& found : generation.run()) {
    texts.push_back(api::hypothesis_of(tokenizer, found));
  }
  return texts;
}

LanguageModel::LanguageModel(std::unique_ptr<State> state) : state_(std::move(state)) {}
LanguageModel::~LanguageModel() = default;
LanguageModel::LanguageModel(LanguageModel&&) noexcept = default;
LanguageModel& LanguageModel::operator=(LanguageModel&&) noexcept = default;

LanguageModel LanguageModel::load(const std::string& path, const Placement& placement,
                                  const SegmenterChoice& segmenters) {
  return LanguageModel(std::make_unique<State>(path, placement, segmenters));
}

std::vector<Scored> LanguageModel::score(std::span<const std::string> texts,
                                         const FeatureVectors& features) {
  api::require_features(state_->model().config(), features);
  const data::TextCorpus corpus(
      api::tokenize(state_->segmentation.target(texts), *state_->loaded.tokenizers.target),
      {features.width, features.values});
  api::warn_of_unknown(state_->context.warnings(), corpus.texts, *state_->loaded.tokenizers.target,
                       "text");
  return api::score(state_->context, state_->kept, corpus);
}

StateShape LanguageModel::state_shape() const {
  const models::LanguageModel& model = state_->model();
  return {model.config().layers, model.config().width(),
          model.has_cell_state() ? model.config().hidden : 0};
}

RowStates LanguageModel::read(std::span<const std::string> texts, const FeatureVectors& features) {
  api::require_features(state_->model().config(), features);
  const data::Tokenizer& tokenizer = *state_->loaded.tokenizers.target;
  api::TokenIds prompts = api::tokenize(state_->segmentation.target(texts), tokenizer);
  api::warn_of_unknown(state_->context.warnings(), prompts, tokenizer, "text");
  for (auto& prompt : prompts) prompt.insert(prompt.begin(), data::kBosId);
  return api::read_states(state_->context, state_->model(), state_->kept, prompts, features);
}

Beam LanguageModel::beam(const BeamStart& start, const BeamStepOptions& options) {
  return api::beam_search(state_->context, state_->model(), state_->kept,
                          *state_->loaded.tokenizers.target, start, options);
}

std::vector<std::string> LanguageModel::vocabulary() const {
  const data::Tokenizer& tokenizer = *state_->loaded.tokenizers.target;
  std::vector<std::string> pieces;
  for (std::int32_t id = 0; id < tokenizer.size(); ++id) pieces.push_back(tokenizer.piece(id));
  return pieces;
}

std::int64_t LanguageModel::vocabulary_size() const { return state_->model().config().vocabulary; }

std::int64_t LanguageModel::features() const { return state_->model().config().features; }

FeatureVectors read_feature_vectors(const std::string& path) {
  data::FeatureVectors read = data::read_feature_vectors(path);
  return {read.width, std::move(read.values)};
}

ModelInfo LanguageModel::info() const {
  return api::model_info(state_->context, state_->path, state_->loaded);
}

PlanCacheUse LanguageModel::plan_cache() const { return state_->kept.use(); }

void LanguageModel::clear_plan_cache() { state_->kept.store.clear(); }

void LanguageModel::begin_profile(const ProfileRequest& request) {
  state_->recording.begin(state_->context, request);
}

void LanguageModel::end_profile() { state_->recording.finish(); }

std::vector<Hypothesis> LanguageModel::generate(const GenerateOptions& options) {
  api::TextStates states;
  if (!options.state.empty()) {
    states.from = [&] { return decoding::load_stream(options.state, state_->identity()); };
  }
  if (!options.save_state.empty()) {
    states.to = [&](const decoding::StreamState& left) {
      decoding::save_stream(options.save_state, left, state_->identity());
    };
  }
  return state_->generate(options, std::move(states));
}

TextParts LanguageModel::generate_part(const GenerateOptions& options, std::string_view state) {
  SLUICE_CHECK(options.state.empty() && options.save_state.empty(),
               "generate_part takes and gives states in memory; files of states are for generate");
  TextParts parts;
  api::TextStates states;
  if (!state.empty()) {
    states.from = [&] { return decoding::stream_of_bytes(state, state_->identity()); };
  }
  states.to = [&](const decoding::StreamState& left) {
    parts.state = decoding::stream_bytes(left, state_->identity());
  };
  parts.texts = state_->generate(options, std::move(states));
  return parts;
}

}  // namespace sluice
