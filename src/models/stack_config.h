#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/recurrent/recurrent.h"

namespace sluice::models {

/// The recurrent stack of a model: the part of the configuration that models with one share. Widths
/// are those of a layer, in both directions together.
struct StackConfig {
  std::string cell = "lstm";
  std::int64_t hidden = 256;
  /// Units of each layer where they differ; empty: `hidden` for all.
  std::vector<std::int64_t> widths = {};
  std::int64_t layers = 1;
  bool bidirectional = false;  ///< half of the units, and of a projection, a direction
  /// lstm only: none if empty, one number for all layers, or one a layer.
  std::vector<std::int64_t> projections = {};
  double dropout = 0.2;  ///< between layers, and wherever the model says
  // Options of cells beyond the plain equations (docs/equations.md).
  bool peepholes = false;        ///< lstm only
  bool layer_norm = false;       ///< lstm only, without peepholes and projections
  double zoneout_h = 0;          ///< rate at which units keep their h
  double zoneout_c = 0;          ///< the same of c: lstm only
  double recurrent_dropout = 0;  ///< rate of h in the recurrent product
  bool hard_sigmoid = false;     ///< lstm and grus: gates are clip(0.2 a + 0.5, 0, 1)

  /// Width of a layer's output, of the last one by default.
  std::int64_t output_width() const;
  /// Of that, the forward direction's.
  std::int64_t forward_width() const { return output_width() / (bidirectional ? 2 : 1); }
  /// Without extent, dtype and training flag; `input` is the width of what feeds it.
  kernels::recurrent::Descriptor architecture(std::int64_t input) const;
  /// Throws ErrorCode::kInvalidArgument with the key and what is allowed.
  void validate() const;
};

/// Calls visit(key, member) for every key.
template <typename Config, typename Visit>
void visit_stack_keys(Config& config, Visit&& visit) {
  visit("cell", config.cell);
  visit("hidden", config.hidden);
  visit("widths", config.widths);
  visit("layers", config.layers);
  visit("bidirectional", config.bidirectional);
  visit("projections", config.projections);
  visit("dropout", config.dropout);
  visit("peepholes", config.peepholes);
  visit("layer_norm", config.layer_norm);
  visit("zoneout_h", config.zoneout_h);
  visit("zoneout_c", config.zoneout_c);
  visit("recurrent_dropout", config.recurrent_dropout);
  visit("hard_sigmoid", config.hard_sigmoid);
}

/// Refuses a number out of [1, most]; `most` is the largest width that a layer may have.
void check_width(std::string_view key, std::int64_t value, std::int64_t most = 1 << 24);
/// Refuses what isn't in [0, 1).
void check_rate(std::string_view key, double value);
/// Refuses model.widths that are not one a layer, or that two directions can't halve.
void check_widths(const std::vector<std::int64_t>& widths, std::int64_t layers, bool bidirectional);
/// Refuses model.hidden that two directions can't halve, unless each layer has its own width.
void check_hidden(std::int64_t hidden, const std::vector<std::int64_t>& widths, bool bidirectional);
/// Refuses model.hard_sigmoid of a cell without gates.
void check_hard_sigmoid(bool hard_sigmoid, const std::string& cell);

}  // namespace sluice::models
