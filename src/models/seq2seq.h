#pragma once

#include <cstdint>

#include "layers/attention_decoder.h"
#include "layers/embedding.h"
#include "layers/linear.h"
#include "layers/parameters.h"
#include "layers/recurrent_stack.h"
#include "models/seq2seq_config.h"

namespace sluice::models {

using runtime::Context;
using runtime::DType;
using runtime::Shape;
using runtime::Tensor;

/// Encoder-decoder with attention and input feeding: configuration -> layers and parameters.
///
///   memory, states = encoder(dropout(source embedding))
///   a = decoder(dropout(target embedding), memory), started from the encoder's final states
///   logits = output(dropout(a))
///
/// Tied matrices (Seq2SeqConfig::tie_embeddings) are one parameter, "target_embedding.weight" or,
/// if all are one, "embedding.weight". Its gradients are added in a fixed order: of the output, of
/// the target embedding, of the source embedding.
///
/// Layer l of the decoder starts from the final state of encoder layer l (both directions side by
/// side); decoder layers beyond the encoder's start from zero.
class Seq2Seq {
 public:
  explicit Seq2Seq(const Seq2SeqConfig& config);

  const Seq2SeqConfig& config() const { return config_; }
  layers::Parameters& parameters() { return parameters_; }
  const layers::Parameters& parameters() const { return parameters_; }

  const layers::Embedding& source_embedding() const { return source_embedding_; }
  const layers::Embedding& target_embedding() const { return target_embedding_; }
  const layers::RecurrentStack& encoder() const { return encoder_; }
  const layers::AttentionDecoder& decoder() const { return decoder_; }
  const layers::Linear& output() const { return output_; }

 private:
  Seq2SeqConfig config_;
  layers::Parameters parameters_;
  layers::Embedding source_embedding_;
  layers::Embedding target_embedding_;
  layers::RecurrentStack encoder_;
  layers::AttentionDecoder decoder_;
  layers::Linear output_;
};

/// How much a plan must hold, or a batch holds.
struct Seq2SeqExtent {
  std::int64_t rows = 0;
  std::int64_t source_time = 0;
  std::int64_t target_time = 0;
};

/// A batch on the device, int32, time-major; padding is token 0.
struct Seq2SeqBatch {
  Seq2SeqExtent extent;
  Tensor source;          ///< [source_time, rows]
  Tensor source_lengths;  ///< [rows]
  Tensor target_in;       ///< [target_time, rows], starts with bos
  Tensor target_out;      ///< [target_time, rows], ends with eos
  Tensor target_lengths;  ///< [rows], eos counted
  Tensor row_ids;         ///< [rows]: index of the example in its data set, keys dropout
};

}  // namespace sluice::models
