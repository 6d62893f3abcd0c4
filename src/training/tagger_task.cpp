#include "training/tagger_task.h"

#include "base/check.h"
#include "data/label_spans.h"
#include "models/tagger.h"
#include "training/class_weights.h"
#include "training/stack_keys.h"
#include "training/streamed_data.h"
#include "training/tagger_data.h"

namespace sluice::training {
namespace {

models::TaggerConfig architecture_of(const ModelConfig& model, std::int64_t vocabulary,
                                     std::int64_t labels) {
  models::TaggerConfig config;
  config.cell = model.cell;
  config.vocabulary = vocabulary;
  config.labels = labels;
  config.embedding = model.embedding;
  config.hidden = model.hidden;
  config.widths = stack_config_of(model).widths;
  config.layers = model.layers;
  config.bidirectional = model.bidirectional;
  config.output = model.output;
  config.dropout = model.dropout;
  config.peepholes = model.peepholes;
  config.layer_norm = model.layer_norm;
  config.zoneout_h = model.zoneout_h;
  config.zoneout_c = model.zoneout_c;
  config.recurrent_dropout = model.recurrent_dropout;
  config.hard_sigmoid = model.hard_sigmoid;
  return config;
}

}  // namespace

std::string_view TaggerTask::kind() const { return models::TaggerConfig::kKind; }

std::span<const std::string_view> TaggerTask::keys() const {
  static constexpr std::string_view kKeys[] = {
      "data.conll",
      "data.validation_conll",
      "data.token_column",
      "data.tag_column",
      "data.label_scheme",
      "data.hold_out_run",
      "data.hold_out_every",
      "data.hold_out_fold",
      "data.stream",
      "data.stream_vocabulary_lines",
      "data.max_source_tokens",
      "tokenizer.kind",
      "tokenizer.source_vocabulary",
      "tokenizer.min_count",
      "model.cell",
      "model.initializer",
      "model.recurrent_initializer",
      "model.forget_bias",
      "model.gate_bias",
      "model.embedding",
      "model.hidden",
      "model.layers",
      "model.widths",
      "model.bidirectional",
      "model.output",
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

std::span<const ValidationMetric> TaggerTask::metrics() const {
  using Source = ValidationMetric::Source;
  static const ValidationMetric metrics[] = {
      kLossMetric,
      kAccuracyMetric,
      {"f1", "F1", Source::kAnswers, true, show_share},
      {"precision", "precision", Source::kAnswers, true, show_share},
      {"recall", "recall", Source::kAnswers, true, show_share},
  };
  return metrics;
}

void TaggerTask::check(const TrainConfig& config) const {
  // The architecture's own checks, with vocabularies that only the data will tell.
  architecture_of(config.model, 5, 2).validate();
  SLUICE_CHECK(config.tokenizer.kind == "words" || config.tokenizer.kind == "word_shapes",
               "tokenizer.kind is '{}', but a tagger's tokens are words as they stand: set "
               "tokenizer.kind = \"words\" or \"word_shapes\"",
               config.tokenizer.kind);
  SLUICE_CHECK(config.data.token_column != 0 && config.data.tag_column != 0,
               "data.{}_column is 0; columns are counted from 1, or from the end: -1 is the last",
               config.data.token_column == 0 ? "token" : "tag");
  data::parse_label_scheme(config.data.label_scheme);
  SLUICE_CHECK(config.loop.label_smoothing == 0 || config.model.output != "crf",
               "training.label_smoothing is {}, but a CRF has none; use model.output = \"softmax\"",
               config.loop.label_smoothing);
  SLUICE_CHECK(config.loop.class_weights.empty() || config.model.output != "crf",
               "training.class_weights is '{}', but a CRF scores labels together; use model.output "
               "= \"softmax\"",
               config.loop.class_weights);
}

TrainData TaggerTask::read_data(const TrainConfig& config, const Tokenizers* saved,
                                const base::Watch& watch) const {
  if (config.data.stream) return stream_tagger_data(config, saved, watch);
  return read_tagger_data(config, saved, watch);
}

TrainData TaggerTask::read_validation(const TrainConfig& config, const Tokenizers& saved) const {
  if (config.data.stream) return streamed_tagger_validation(config, saved);
  if (!config.data.conll.empty()) return read_data(config, &saved, {});
  TrainData data;
  data.tokenizers = saved;
  add_tagger_validation(config, config.data.validation_conll, read_tagger_validation(config.data),
                        data);
  return data;
}

std::unique_ptr<models::Model> TaggerTask::make_model(const TrainConfig& config,
                                                      const TrainData& data) const {
  return std::make_unique<models::Tagger>(architecture_of(
      config.model, data.tokenizers.source->size(), data.tokenizers.labels->size()));
}

void TaggerTask::prepare_training(const Context& context, const TrainConfig& config,
                                  const TrainData& data, models::Model& model) const {
  set_class_weights(context, config, data, dynamic_cast<models::Tagger&>(model).class_weights());
}

std::string_view TaggerTask::embedding_of(const TrainConfig&, Vocabulary) const {
  return "embedding.weight";
}

}  // namespace sluice::training
