#include "models/seq2seq.h"

#include <optional>

#include "models/seq2seq_training.h"

namespace sluice::models {
namespace {

namespace recurrent = kernels::recurrent;
namespace attention = kernels::attention_decoder;

constexpr const char* kDecoder = "decoder";

recurrent::Descriptor encoder_architecture(const Seq2SeqConfig& config) {
  recurrent::Descriptor d;
  d.cell = recurrent::parse_cell(config.cell);
  d.layers = config.encoder_layers;
  d.directions = config.bidirectional ? 2 : 1;
  d.input = config.embedding;
  d.hidden = config.hidden / d.directions;
  d.dropout = config.dropout;
  d.peepholes = config.encoder_peepholes;
  d.layer_norm = config.encoder_layer_norm;
  d.zoneout_h = config.encoder_zoneout_h;
  d.zoneout_c = config.encoder_zoneout_c;
  d.recurrent_dropout = config.encoder_recurrent_dropout;
  return d;
}

std::variant<layers::AttentionDecoder, layers::RecurrentStack> make_decoder(
    layers::Parameters& parameters, const Seq2SeqConfig& config) {
  if (!config.attends()) {
    recurrent::Descriptor d;
    d.cell = recurrent::parse_cell(config.cell);
    d.layers = config.decoder_layers;
    d.input = config.embedding;
    d.hidden = config.hidden;
    d.dropout = config.dropout;
    return layers::RecurrentStack(parameters, kDecoder, d);
  }
  attention::Descriptor d;
  d.cell = recurrent::parse_cell(config.cell);
  d.attention = attention::parse_attention(config.attention);
  d.layers = config.decoder_layers;
  d.embedding = config.embedding;
  d.hidden = config.hidden;
  d.memory = config.hidden;
  d.key = d.attention == attention::AttentionType::kAdditive ? config.hidden : 0;
  d.output = config.hidden;
  d.dropout = config.dropout;
  return layers::AttentionDecoder(parameters, kDecoder, d);
}

bool ties_all(const Seq2SeqConfig& config) { return config.tie_embeddings == "all"; }

std::optional<layers::ParameterId> shared_if(bool tied, layers::ParameterId weight) {
  return tied ? std::optional(weight) : std::nullopt;
}

const Seq2SeqConfig& validated(const Seq2SeqConfig& config) {
  config.validate();
  return config;
}

}  // namespace

Seq2Seq::Seq2Seq(const Seq2SeqConfig& config)
    : config_(validated(config)),
      source_embedding_(parameters_, ties_all(config) ? "embedding" : "source_embedding",
                        config.source_vocabulary, config.embedding),
      target_embedding_(parameters_, "target_embedding", config.target_vocabulary, config.embedding,
                        shared_if(ties_all(config), source_embedding_.weight())),
      encoder_(parameters_, "encoder", encoder_architecture(config)),
      decoder_(make_decoder(parameters_, config)),
      output_(parameters_, "output", config.hidden, config.target_vocabulary,
              shared_if(config.tie_embeddings != "none", target_embedding_.weight())) {}

std::unique_ptr<TrainingPlan> Seq2Seq::training_plan(const Context& context,
                                                     runtime::ArenaPlanner& planner,
                                                     const Extent& capacity, bool training) const {
  return std::make_unique<Seq2SeqTraining>(context, *this, planner, capacity, training);
}

}  // namespace sluice::models
