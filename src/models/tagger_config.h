#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::models {

/// Architecture of a recurrent tagger; stored in the checkpoint.
struct TaggerConfig {
  static constexpr std::string_view kKind = "tagger";  ///< Model::kind

  std::string cell = "lstm";  ///< of kernels/recurrent
  std::int64_t vocabulary = 0;
  std::int64_t labels = 0;
  std::int64_t embedding = 100;
  std::int64_t hidden = 200;  ///< units of a layer in all directions together
  /// Units of each layer where they differ; empty: `hidden` for all.
  std::vector<std::int64_t> widths = {};
  std::int64_t layers = 1;
  bool bidirectional = true;  ///< half of the units a direction
  /// crf: a label's score depends on its neighbour (docs/equations.md); softmax: each stands for
  /// itself.
  std::string output = "crf";
  double dropout = 0.5;  ///< embeddings, between layers, before the output layer
  // Options of cells beyond the plain equations (docs/equations.md).
  bool peepholes = false;        ///< lstm only
  bool layer_norm = false;       ///< lstm only, without peepholes
  double zoneout_h = 0;          ///< rate at which units keep their h
  double zoneout_c = 0;          ///< the same of c: lstm only
  double recurrent_dropout = 0;  ///< rate of h in the recurrent product
  bool hard_sigmoid = false;     ///< lstm and grus: gates are clip(0.2 a + 0.5, 0, 1)

  /// Features of the stack's output, which the output layer reads.
  std::int64_t output_width() const { return widths.empty() ? hidden : widths.back(); }
  bool has_crf() const { return output == "crf"; }

  /// Why its sequences can't come in parts, each answered before the next is there; empty if they
  /// can.
  std::string refuse_parts() const;
  /// Throws ErrorCode::kInvalidArgument with the key and what is allowed.
  void validate() const;
  /// JSON text as stored in the checkpoint; from_json refuses unknown or mistyped keys.
  std::string to_json() const;
  static TaggerConfig from_json(std::string_view text);
};

}  // namespace sluice::models
