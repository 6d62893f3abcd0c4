#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace sluice::models {

/// Architecture of a recurrent language model; stored in the checkpoint.
struct LanguageModelConfig {
  static constexpr std::string_view kKind = "language_model";  ///< Model::kind

  std::string cell = "lstm";  ///< of kernels/recurrent
  std::int64_t vocabulary = 0;
  std::int64_t embedding = 256;
  std::int64_t hidden = 512;
  std::int64_t layers = 1;
  std::int64_t projection = 0;  ///< width of every layer's output, lstm only; 0: hidden
  double dropout = 0.2;         ///< embeddings, between layers, before the output layer
  /// Which matrices are one: "none" or "decoder" (embedding and output layer), which are as wide as
  /// the stack's output: embedding == width().
  std::string tie_embeddings = "none";
  /// Numbers of the vector that a text is conditioned on: it makes the states that the stack starts
  /// from. 0: the stack starts from zero.
  std::int64_t features = 0;
  // Options of cells beyond the plain equations (docs/equations.md).
  bool peepholes = false;        ///< lstm only
  bool layer_norm = false;       ///< lstm only, without projection and peepholes
  double zoneout_h = 0;          ///< rate at which units keep their h
  double zoneout_c = 0;          ///< the same of c: lstm only
  double recurrent_dropout = 0;  ///< rate of h in the recurrent product
  bool hard_sigmoid = false;     ///< lstm and grus: gates are clip(0.2 a + 0.5, 0, 1)

  /// Features of the stack's output, which the output layer reads.
  std::int64_t width() const { return projection > 0 ? projection : hidden; }

  /// Throws ErrorCode::kInvalidArgument with the key and what is allowed.
  void validate() const;
  /// JSON text as stored in the checkpoint; from_json refuses unknown or mistyped keys.
  std::string to_json() const;
  static LanguageModelConfig from_json(std::string_view text);
};

}  // namespace sluice::models
