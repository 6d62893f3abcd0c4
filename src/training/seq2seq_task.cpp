#include "training/seq2seq_task.h"

#include "base/check.h"
#include "models/seq2seq.h"
#include "training/seq2seq_data.h"
#include "training/streamed_data.h"

namespace sluice::training {
namespace {

models::Seq2SeqConfig architecture_of(const ModelConfig& model, std::int64_t source_vocabulary,
                                      std::int64_t target_vocabulary) {
  models::Seq2SeqConfig config;
  config.cell = model.cell;
  config.source_vocabulary = source_vocabulary;
  config.target_vocabulary = target_vocabulary;
  config.embedding = model.embedding;
  config.hidden = model.hidden;
  config.encoder_layers = model.encoder_layers;
  config.decoder_layers = model.decoder_layers;
  config.bidirectional = model.bidirectional;
  config.attention = model.attention;
  config.dropout = model.dropout;
  config.tie_embeddings = model.tie_embeddings;
  config.encoder_peepholes = model.encoder_peepholes;
  config.encoder_layer_norm = model.encoder_layer_norm;
  config.encoder_zoneout_h = model.encoder_zoneout_h;
  config.encoder_zoneout_c = model.encoder_zoneout_c;
  config.encoder_recurrent_dropout = model.encoder_recurrent_dropout;
  return config;
}

bool ties_all(const TrainConfig& config) { return config.model.tie_embeddings == "all"; }

}  // namespace

std::string_view Seq2SeqTask::kind() const { return models::Seq2SeqConfig::kKind; }

std::span<const std::string_view> Seq2SeqTask::keys() const {
  static constexpr std::string_view kKeys[] = {
      "data.tsv",
      "data.source",
      "data.target",
      "data.validation_tsv",
      "data.validation_source",
      "data.validation_target",
      "data.source_segmenter",
      "data.target_segmenter",
      "data.stream",
      "data.stream_vocabulary_lines",
      "data.hold_out_run",
      "data.hold_out_every",
      "data.hold_out_fold",
      "data.max_source_tokens",
      "data.max_target_tokens",
      "tokenizer.kind",
      "tokenizer.shared",
      "tokenizer.source_vocabulary",
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
      "model.encoder_layers",
      "model.decoder_layers",
      "model.bidirectional",
      "model.attention",
      "model.dropout",
      "model.tie_embeddings",
      "model.encoder_peepholes",
      "model.encoder_layer_norm",
      "model.encoder_zoneout_h",
      "model.encoder_zoneout_c",
      "model.encoder_recurrent_dropout",
      "model.source_embeddings_from",
      "model.target_embeddings_from",
      "training.label_smoothing",
      "training.scheduled_sampling",
      "training.sampling_steps",
      "training.sampling_max",
      "training.sampling_draw",
      "training.bleu_tokenizer",
      "output.attention_images",
  };
  return kKeys;
}

std::span<const ValidationMetric> Seq2SeqTask::metrics() const {
  using Source = ValidationMetric::Source;
  static const ValidationMetric metrics[] = {
      kLossMetric,
      kPerplexityMetric,
      kAccuracyMetric,
      {"exact_match", "exact match", Source::kSearch, true, show_share},
      {"bleu", "BLEU", Source::kSearch, true, show_score},
      {"chrf", "chrF", Source::kSearch, true, show_score},
  };
  return metrics;
}

void Seq2SeqTask::check(const TrainConfig& config) const {
  // The architecture's own checks, with vocabularies that only the data will tell.
  architecture_of(config.model, 5, 5).validate();
  if (!ties_all(config)) return;
  SLUICE_CHECK(config.tokenizer.shared,
               "model.tie_embeddings is 'all', which takes one vocabulary: set tokenizer.shared");
  SLUICE_CHECK(config.initial.source_embeddings.empty() || config.initial.target_embeddings.empty(),
               "model.tie_embeddings is 'all', so set one of model.source_embeddings_from and "
               "model.target_embeddings_from");
}

TrainData Seq2SeqTask::read_data(const TrainConfig& config, const Tokenizers* saved,
                                 const base::Watch& watch) const {
  if (config.data.stream) return stream_seq2seq_data(config, saved, watch);
  return make_train_data(config, read_text_data(config.data, watch), saved, watch);
}

TrainData Seq2SeqTask::read_validation(const TrainConfig& config, const Tokenizers& saved) const {
  if (config.data.stream) return streamed_seq2seq_validation(config, saved);
  const DataConfig& files = config.data;
  if (!files.tsv.empty() || !files.source.empty()) return read_data(config, &saved, {});
  return make_train_data(config, {{}, read_validation_pairs(files)}, &saved);
}

std::unique_ptr<models::Model> Seq2SeqTask::make_model(const TrainConfig& config,
                                                       const TrainData& data) const {
  return std::make_unique<models::Seq2Seq>(architecture_of(
      config.model, data.tokenizers.source->size(), data.tokenizers.target->size()));
}

std::string_view Seq2SeqTask::embedding_of(const TrainConfig& config, Vocabulary vocabulary) const {
  if (ties_all(config)) return "embedding.weight";
  return vocabulary == Vocabulary::kSource ? "source_embedding.weight" : "target_embedding.weight";
}

}  // namespace sluice::training
