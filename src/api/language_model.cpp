#include "sluice/language_model.h"

#include "api/answer_search.h"
#include "api/loaded_model.h"
#include "api/scoring.h"
#include "api/text_generation.h"
#include "api/text_segmentation.h"
#include "api/tokenize.h"
#include "base/check.h"
#include "data/feature_vectors.h"
#include "data/text_corpus.h"
#include "models/language_model.h"
#include "training/threads.h"

namespace sluice {

struct LanguageModel::State {
  State(const std::string& path_in, const Placement& placement, const SegmenterChoice& choice)
      : path(path_in),
        device(runtime::open_device(placement.device)),
        context(api::context_on(*device, placement, path_in)),
        loaded(training::load_model(context, path_in)),
        segmentation(path_in, loaded.config, choice) {
    api::require_kind(path, loaded, models::LanguageModelConfig::kKind);
    training::use_threads(context, 0);
  }

  const models::LanguageModel& model() const {
    return dynamic_cast<const models::LanguageModel&>(*loaded.model);
  }

  std::string path;
  std::unique_ptr<runtime::Device> device;
  runtime::Context context;
  training::LoadedModel loaded;
  api::TextSegmentation segmentation;
};

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
  return api::score(state_->context, *state_->loaded.model, corpus);
}

std::int64_t LanguageModel::features() const { return state_->model().config().features; }

FeatureVectors read_feature_vectors(const std::string& path) {
  data::FeatureVectors read = data::read_feature_vectors(path);
  return {read.width, std::move(read.values)};
}

ModelInfo LanguageModel::info() const {
  return api::model_info(state_->context, state_->path, state_->loaded);
}

std::vector<Hypothesis> LanguageModel::generate(const GenerateOptions& options) {
  const data::Tokenizer& tokenizer = *state_->loaded.tokenizers.target;
  std::vector<std::int32_t> prefix;
  if (!options.prefix.empty()) {
    const auto segmented = state_->segmentation.target({&options.prefix, 1});
    prefix = api::tokenize_prefixes(segmented, 1, tokenizer, options.max_length).front();
  }
  api::TextGeneration generation(state_->context, state_->model(), options, std::move(prefix));
  std::vector<Hypothesis> texts;
  for (const decoding::Hypothesis& found : generation.run()) {
    texts.push_back(api::hypothesis_of(tokenizer, found));
  }
  return texts;
}

}  // namespace sluice
