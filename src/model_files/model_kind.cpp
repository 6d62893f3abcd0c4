#include "model_files/model_kind.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "models/classifier.h"
#include "models/features.h"
#include "models/language_model.h"
#include "models/seq2seq.h"
#include "models/tagger.h"

namespace sluice::model_files {
namespace {

using models::Model;

std::unique_ptr<Model> saved_seq2seq(std::string_view configuration, const Tokenizers& tokenizers) {
  const auto config = models::Seq2SeqConfig::from_json(configuration);
  tokenizers.require(Vocabulary::kSource, config.source_vocabulary);
  tokenizers.require(Vocabulary::kTarget, config.target_vocabulary);
  return std::make_unique<models::Seq2Seq>(config);
}

constexpr WordParameter kSeq2SeqWords[] = {
    {"source_embedding.weight", Vocabulary::kSource}, {"embedding.weight", Vocabulary::kSource},
    {"target_embedding.weight", Vocabulary::kTarget}, {"embedding.weight", Vocabulary::kTarget},
    {"output.weight", Vocabulary::kTarget},           {"output.bias", Vocabulary::kTarget},
};

std::unique_ptr<Model> saved_language_model(std::string_view configuration,
                                            const Tokenizers& tokenizers) {
  const auto config = models::LanguageModelConfig::from_json(configuration);
  tokenizers.require(Vocabulary::kTarget, config.vocabulary);
  return std::make_unique<models::LanguageModel>(config);
}

constexpr WordParameter kLanguageModelWords[] = {
    {"embedding.weight", Vocabulary::kTarget},
    {"output.weight", Vocabulary::kTarget},
    {"output.bias", Vocabulary::kTarget},
};

std::unique_ptr<Model> saved_tagger(std::string_view configuration, const Tokenizers& tokenizers) {
  const auto config = models::TaggerConfig::from_json(configuration);
  tokenizers.require(Vocabulary::kSource, config.vocabulary);
  tokenizers.require(Vocabulary::kLabels, config.labels);
  return std::make_unique<models::Tagger>(config);
}

constexpr WordParameter kTaggerWords[] = {
    {"embedding.weight", Vocabulary::kSource}, {"output.weight", Vocabulary::kLabels},
    {"output.bias", Vocabulary::kLabels},      {"crf.transitions", Vocabulary::kLabels},
    {"crf.start", Vocabulary::kLabels},        {"crf.end", Vocabulary::kLabels},
};

std::unique_ptr<Model> saved_classifier(std::string_view configuration,
                                        const Tokenizers& tokenizers) {
  const auto config = models::ClassifierConfig::from_json(configuration);
  tokenizers.require(Vocabulary::kSource, config.vocabulary);
  tokenizers.require(Vocabulary::kLabels, config.classes);
  return std::make_unique<models::Classifier>(config);
}

constexpr WordParameter kClassifierWords[] = {
    {"embedding.weight", Vocabulary::kSource},
    {"output.weight", Vocabulary::kLabels},
    {"output.bias", Vocabulary::kLabels},
};

std::unique_ptr<Model> saved_features(std::string_view configuration,
                                      const Tokenizers& tokenizers) {
  const auto config = models::FeaturesConfig::from_json(configuration);
  if (config.has_classes()) tokenizers.require(Vocabulary::kLabels, config.outputs);
  return std::make_unique<models::Features>(config);
}

const ModelKind kKinds[] = {
    {models::Seq2SeqConfig::kKind, "sluice decode, chat or score", saved_seq2seq, kSeq2SeqWords},
    {models::LanguageModelConfig::kKind, "sluice generate or score", saved_language_model,
     kLanguageModelWords},
    {models::TaggerConfig::kKind, "sluice tag", saved_tagger, kTaggerWords},
    {models::ClassifierConfig::kKind, "sluice classify", saved_classifier, kClassifierWords},
    {models::FeaturesConfig::kKind, "sluice run", saved_features, {}},
};

}  // namespace

std::span<const ModelKind> model_kinds() { return kKinds; }

const ModelKind* find_kind(std::string_view name) {
  const auto found = std::ranges::find(kKinds, name, &ModelKind::name);
  return found == std::end(kKinds) ? nullptr : found;
}

std::string names_of_kinds() {
  std::vector<std::string_view> names;
  for (const ModelKind& kind : kKinds) names.push_back(kind.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace sluice::model_files
