#include "training/language_model_task.h"

#include <algorithm>
#include <numbers>

#include "base/check.h"
#include "data/text_corpus.h"
#include "models/language_model.h"
#include "training/language_model_data.h"
#include "training/stack_keys.h"
#include "training/streamed_data.h"

namespace sluice::training {
namespace {

// One width for all layers, for which one number is enough.
std::int64_t projection_of(const ModelConfig& model) {
  const std::vector<std::int64_t> widths = stack_config_of(model).projections;
  if (widths.empty()) return 0;
  SLUICE_CHECK(std::equal(widths.begin() + 1, widths.end(), widths.begin()),
               "model.projections is '{}', but all layers of a language model have the same width",
               model.projections);
  return widths.front();
}

models::LanguageModelConfig architecture_of(const ModelConfig& model, std::int64_t vocabulary,
                                            std::int64_t features = 0) {
  models::LanguageModelConfig config;
  config.cell = model.cell;
  config.vocabulary = vocabulary;
  config.features = features;
  config.embedding = model.embedding;
  config.hidden = model.hidden;
  config.layers = model.layers;
  config.projection = projection_of(model);
  config.dropout = model.dropout;
  config.tie_embeddings = model.tie_embeddings;
  config.peepholes = model.peepholes;
  config.layer_norm = model.layer_norm;
  config.zoneout_h = model.zoneout_h;
  config.zoneout_c = model.zoneout_c;
  config.recurrent_dropout = model.recurrent_dropout;
  config.hard_sigmoid = model.hard_sigmoid;
  return config;
}

void check_features(const TrainConfig& config) {
  const DataConfig& data = config.data;
  const bool given = !data.features.empty();
  SLUICE_CHECK(given || data.validation_features.empty(),
               "data.validation_features is set, but data.features is not");
  if (!given) return;
  SLUICE_CHECK(data.validation_text.empty() == data.validation_features.empty(),
               "data.validation_text and data.validation_features belong together where "
               "data.features is set, but only one is");
  SLUICE_CHECK(config.loop.bptt == 0,
               "training.bptt is {}, but a running text has no use for data.features, a vector for "
               "each text",
               config.loop.bptt);
  SLUICE_CHECK(!data.stream, "data.stream does not keep vectors; leave out it or data.features");
}

}  // namespace

std::string_view LanguageModelTask::kind() const { return models::LanguageModelConfig::kKind; }

std::span<const std::string_view> LanguageModelTask::keys() const {
  static constexpr std::string_view kKeys[] = {
      "data.text",
      "data.validation_text",
      "data.features",
      "data.validation_features",
      "data.target_segmenter",
      "data.stream",
      "data.stream_vocabulary_lines",
      "data.hold_out_run",
      "data.hold_out_every",
      "data.hold_out_fold",
      "data.max_target_tokens",
      "tokenizer.kind",
      "tokenizer.target_vocabulary",
      "tokenizer.min_count",
      "tokenizer.character_coverage",
      "tokenizer.byte_fallback",
      "tokenizer.normalization",
      "model.cell",
      "model.initializer",
      "model.recurrent_initializer",
      "model.forget_bias",
      "model.gate_bias",
      "model.embedding",
      "model.hidden",
      "model.layers",
      "model.projections",
      "model.dropout",
      "model.tie_embeddings",
      "model.peepholes",
      "model.layer_norm",
      "model.zoneout_h",
      "model.zoneout_c",
      "model.recurrent_dropout",
      "model.hard_sigmoid",
      "model.target_embeddings_from",
      "training.label_smoothing",
      "training.scheduled_sampling",
      "training.sampling_steps",
      "training.sampling_max",
      "training.sampling_draw",
      "training.bptt",
  };
  return kKeys;
}

std::span<const ValidationMetric> LanguageModelTask::metrics() const {
  static const ValidationMetric metrics[] = {
      kLossMetric,
      kPerplexityMetric,
      {.key = "bits_per_token",
       .name = "bits per token",
       .show = show_number,
       .of_sums = [](const ValidationReport& r) { return r.loss / std::numbers::ln2; }},
      kAccuracyMetric,
  };
  return metrics;
}

void LanguageModelTask::check(const TrainConfig& config) const {
  check_features(config);
  // The architecture's own checks, with a vocabulary that only the data will tell.
  architecture_of(config.model, 5).validate();
  SLUICE_CHECK(config.loop.bptt <= config.loop.max_tokens,
               "training.bptt is {}, so one stretch of text makes a batch of more than "
               "training.max_tokens = {} tokens; raise that or lower training.bptt",
               config.loop.bptt, config.loop.max_tokens);
}

TrainData LanguageModelTask::read_data(const TrainConfig& config, const Tokenizers* saved,
                                       const base::Watch& watch) const {
  if (config.data.stream) return stream_language_model_data(config, saved, watch);
  return make_language_model_data(config, read_language_model_text(config, watch), saved, watch);
}

TrainData LanguageModelTask::read_validation(const TrainConfig& config,
                                             const Tokenizers& saved) const {
  if (config.data.stream) return streamed_language_model_validation(config, saved);
  if (!config.data.text.empty()) return read_data(config, &saved, {});
  return make_language_model_data(config, read_language_model_validation(config), &saved);
}

void LanguageModelTask::require_widths(const TrainConfig& config, const models::Model& model,
                                       const TrainData& data) const {
  const std::int64_t features = dynamic_cast<const models::LanguageModel&>(model).config().features;
  const auto* texts = dynamic_cast<const data::TextCorpus*>(data.validation.get());
  const std::int64_t width = texts != nullptr ? texts->vectors.width : 0;
  const DataConfig& files = config.data;
  SLUICE_CHECK(width == features,
               "'{}': its vectors have {} features, but the model was trained on vectors of {}",
               files.validation_text.empty() ? files.features : files.validation_features, width,
               features);
}

std::unique_ptr<models::Model> LanguageModelTask::make_model(const TrainConfig& config,
                                                             const TrainData& data) const {
  const auto* texts = dynamic_cast<const data::TextCorpus*>(data.train.get());
  return std::make_unique<models::LanguageModel>(architecture_of(
      config.model, data.tokenizers.target->size(), texts == nullptr ? 0 : texts->vectors.width));
}

void LanguageModelTask::prepare_training(const Context& context, const TrainConfig& config,
                                         const TrainData&, models::Model& model) const {
  if (config.loop.bptt == 0) return;
  dynamic_cast<models::LanguageModel&>(model).carry_states(context, stretches_of(config));
}

std::string_view LanguageModelTask::embedding_of(const TrainConfig&, Vocabulary) const {
  return "embedding.weight";
}

}  // namespace sluice::training
