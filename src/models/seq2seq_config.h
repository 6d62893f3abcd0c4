#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace sluice::models {

/// Architecture of an encoder-decoder; stored in the checkpoint.
struct Seq2SeqConfig {
  static constexpr std::string_view kKind = "seq2seq";  ///< Model::kind

  std::string cell = "lstm";  ///< of kernels/recurrent
  std::int64_t source_vocabulary = 0;
  std::int64_t target_vocabulary = 0;
  std::int64_t embedding = 256;  ///< width of source and target embeddings
  std::int64_t hidden = 256;     ///< decoder units; encoder units in all directions together
  std::int64_t encoder_layers = 1;
  std::int64_t decoder_layers = 1;
  bool bidirectional = true;  ///< encoder: hidden/2 units a direction
  /// additive (Bahdanau), multiplicative (Luong general) or none: all that the decoder knows of the
  /// source is the final state of each encoder layer, and the encoder has no more layers than it.
  std::string attention = "additive";
  double dropout = 0.2;  ///< embeddings, between layers, attentional output
  /// Which matrices are one: "none", "decoder" (target embedding and output) or "all" (source
  /// embedding too, of one vocabulary). They are as wide as the decoder: embedding == hidden.
  std::string tie_embeddings = "none";
  // Options of the encoder's cells beyond the plain equations (docs/equations.md).
  bool encoder_peepholes = false;        ///< lstm only
  bool encoder_layer_norm = false;       ///< lstm only, without peepholes
  double encoder_zoneout_h = 0;          ///< rate at which units keep their h
  double encoder_zoneout_c = 0;          ///< the same of c: lstm only
  double encoder_recurrent_dropout = 0;  ///< rate of h in the recurrent product

  bool attends() const { return attention != "none"; }

  /// Throws ErrorCode::kInvalidArgument with the key and what is allowed.
  void validate() const;
  /// JSON text as stored in the checkpoint; from_json refuses unknown or mistyped keys.
  std::string to_json() const;
  static Seq2SeqConfig from_json(std::string_view text);
};

}  // namespace sluice::models
