#include "training/classifier_task.h"

#include "base/check.h"
#include "models/classifier.h"
#include "training/class_weights.h"
#include "training/classifier_data.h"
#include "training/stack_keys.h"
#include "training/streamed_data.h"

namespace sluice::training {
namespace {

models::ClassifierConfig architecture_of(const ModelConfig& model, std::int64_t vocabulary,
                                         std::int64_t classes) {
  models::ClassifierConfig config;
  config.vocabulary = vocabulary;
  config.classes = classes;
  config.embedding = model.embedding;
  config.stack = stack_config_of(model);
  if (model.pooling != "auto") config.pooling = model.pooling;
  return config;
}

}  // namespace

std::string_view ClassifierTask::kind() const { return models::ClassifierConfig::kKind; }

std::span<const std::string_view> ClassifierTask::keys() const {
  static constexpr std::string_view kKeys[] = {
      "data.table",
      "data.validation_table",
      "data.text_column",
      "data.label_column",
      "data.source_segmenter",
      "data.hold_out_run",
      "data.hold_out_every",
      "data.hold_out_fold",
      "data.stream",
      "data.stream_vocabulary_lines",
      "data.max_source_tokens",
      "tokenizer.kind",
      "tokenizer.source_vocabulary",
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
      "model.widths",
      "model.projections",
      "model.bidirectional",
      "model.pooling",
      "model.dropout",
      "model.peepholes",
      "model.layer_norm",
      "model.zoneout_h",
      "model.zoneout_c",
      "model.recurrent_dropout",
      "model.hard_sigmoid",
      "model.source_embeddings_from",
      "training.class_weights",
      "training.label_smoothing",
  };
  return kKeys;
}

std::span<const ValidationMetric> ClassifierTask::metrics() const {
  static const ValidationMetric metrics[] = {kLossMetric, kAccuracyMetric};
  return metrics;
}

void ClassifierTask::check(const TrainConfig& config) const {
  SLUICE_CHECK(
      config.model.pooling != "none",
      "model.pooling is none, but a classifier gives a text one label; use last, mean, max "
      "or attention");
  // The architecture's own checks, with vocabulary and classes that only the data will tell.
  architecture_of(config.model, 5, 2).validate();
}

TrainData ClassifierTask::read_data(const TrainConfig& config, const Tokenizers* saved,
                                    const base::Watch& watch) const {
  if (config.data.stream) return stream_classifier_data(config, saved, watch);
  return read_classifier_data(config, saved, watch);
}

TrainData ClassifierTask::read_validation(const TrainConfig& config,
                                          const Tokenizers& saved) const {
  if (config.data.stream) return streamed_classifier_validation(config, saved);
  if (!config.data.table.empty()) return read_data(config, &saved, {});
  TrainData data;
  data.tokenizers = saved;
  add_classifier_validation(config, read_classifier_validation(config.data), data, {});
  return data;
}

std::unique_ptr<models::Model> ClassifierTask::make_model(const TrainConfig& config,
                                                          const TrainData& data) const {
  return std::make_unique<models::Classifier>(architecture_of(
      config.model, data.tokenizers.source->size(), data.tokenizers.labels->size()));
}

void ClassifierTask::prepare_training(const Context& context, const TrainConfig& config,
                                      const TrainData& data, models::Model& model) const {
  set_class_weights(context, config, data,
                    dynamic_cast<models::Classifier&>(model).class_weights());
}

std::string_view ClassifierTask::embedding_of(const TrainConfig&, Vocabulary) const {
  return "embedding.weight";
}

}  // namespace sluice::training
