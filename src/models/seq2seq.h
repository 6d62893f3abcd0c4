#pragma once

#include <variant>

#include "layers/attention_decoder.h"
#include "layers/embedding.h"
#include "layers/linear.h"
#include "layers/recurrent_stack.h"
#include "models/model.h"
#include "models/seq2seq_config.h"

namespace sluice::models {

/// Encoder-decoder: configuration -> layers and parameters. With attention and input feeding:
///
///   memory, states = encoder(dropout(source embedding))
///   a = decoder(dropout(target embedding), memory), started from the encoder's final states
///   logits = output(dropout(a))
///
/// Without attention (Seq2SeqConfig::attention is "none") the decoder is a plain recurrent stack,
/// which reads no memory, and a is the output of its top layer.
///
/// Tied matrices (Seq2SeqConfig::tie_embeddings) are one parameter, "target_embedding.weight" or,
/// if all are one, "embedding.weight". Its gradients are added in a fixed order: of the output, of
/// the target embedding, of the source embedding.
///
/// Layer l of the decoder starts from the final state of encoder layer l (both directions side by
/// side); decoder layers beyond the encoder's start from zero.
class Seq2Seq final : public Model {
 public:
  explicit Seq2Seq(const Seq2SeqConfig& config);

  std::string_view kind() const override { return Seq2SeqConfig::kKind; }
  std::string configuration() const override { return config_.to_json(); }
  /// A Seq2SeqTraining.
  std::unique_ptr<TrainingPlan> training_plan(const Context& context,
                                              runtime::ArenaPlanner& planner,
                                              const Extent& capacity, bool training) const override;

  const Seq2SeqConfig& config() const { return config_; }

  const layers::Embedding& source_embedding() const { return source_embedding_; }
  const layers::Embedding& target_embedding() const { return target_embedding_; }
  const layers::RecurrentStack& encoder() const { return encoder_; }
  /// The decoder is one of these two, and the other is null.
  const layers::AttentionDecoder* attention_decoder() const {
    return std::get_if<layers::AttentionDecoder>(&decoder_);
  }
  const layers::RecurrentStack* plain_decoder() const {
    return std::get_if<layers::RecurrentStack>(&decoder_);
  }
  const layers::Linear& output() const { return output_; }

 private:
  Seq2SeqConfig config_;
  layers::Embedding source_embedding_;
  layers::Embedding target_embedding_;
  layers::RecurrentStack encoder_;
  std::variant<layers::AttentionDecoder, layers::RecurrentStack> decoder_;
  layers::Linear output_;
};

}  // namespace sluice::models
