#include "models/stack_config.h"

#include "base/check.h"

namespace sluice::models {

namespace recurrent = kernels::recurrent;

namespace {

constexpr std::int64_t kMostLayers = 64;

void check_projections(const StackConfig& config) {
  const std::size_t count = config.projections.size();
  SLUICE_CHECK(count <= 1 || static_cast<std::int64_t>(count) == config.layers,
               "model.projections has {} numbers for {} layers; give one for all, or one a layer",
               count, config.layers);
  for (const std::int64_t width : config.projections) {
    check_width("projections", width);
    SLUICE_CHECK(!config.bidirectional || width % 2 == 0,
                 "model.projections has {}; a bidirectional stack halves it, so it must be even",
                 width);
  }
}

void check_cell(const StackConfig& config) {
  const bool is_lstm = recurrent::parse_cell(config.cell) == recurrent::CellType::kLstm;
  const auto check_lstm = [&](bool on, std::string_view key, std::string_view what) {
    SLUICE_CHECK(is_lstm || !on, "model.{} is set, but only an lstm has {}; model.cell is '{}'",
                 key, what, config.cell);
  };
  check_lstm(!config.projections.empty(), "projections", "projections");
  check_lstm(config.peepholes, "peepholes", "peepholes");
  check_lstm(config.layer_norm, "layer_norm", "layer norm");
  check_lstm(config.zoneout_c > 0, "zoneout_c", "a cell state");
  SLUICE_CHECK(!config.layer_norm || (!config.peepholes && config.projections.empty()),
               "model.layer_norm is on, but an lstm with {} has none",
               config.peepholes ? "model.peepholes" : "model.projections");
}

}  // namespace

void check_width(std::string_view key, std::int64_t value, std::int64_t most) {
  SLUICE_CHECK(value >= 1 && value <= most, "model.{} is {}; it must be in 1..{}", key, value,
               most);
}

void check_widths(const std::vector<std::int64_t>& widths, std::int64_t layers,
                  bool bidirectional) {
  SLUICE_CHECK(widths.empty() || static_cast<std::int64_t>(widths.size()) == layers,
               "model.widths has {} numbers for {} layers; give one a layer", widths.size(),
               layers);
  for (const std::int64_t width : widths) {
    check_width("widths", width);
    SLUICE_CHECK(!bidirectional || width % 2 == 0,
                 "model.widths has {}; two directions halve it, so it must be even", width);
  }
}

void check_hidden(std::int64_t hidden, const std::vector<std::int64_t>& widths,
                  bool bidirectional) {
  check_width("hidden", hidden);
  SLUICE_CHECK(!bidirectional || hidden % 2 == 0 || !widths.empty(),
               "model.hidden is {}; two directions halve it, so it must be even", hidden);
}

void check_hard_sigmoid(bool hard_sigmoid, const std::string& cell) {
  SLUICE_CHECK(!hard_sigmoid || recurrent::gates_of(recurrent::parse_cell(cell)) > 1,
               "model.hard_sigmoid is set, but a plain RNN has no gates; model.cell is '{}'", cell);
}

void check_rate(std::string_view key, double value) {
  SLUICE_CHECK(value >= 0 && value < 1, "model.{} is {}; it must be in [0, 1)", key, value);
}

std::int64_t StackConfig::output_width() const {
  if (!projections.empty()) return projections.back();
  return widths.empty() ? hidden : widths.back();
}

recurrent::Descriptor StackConfig::architecture(std::int64_t input) const {
  recurrent::Descriptor d;
  d.cell = recurrent::parse_cell(cell);
  d.layers = layers;
  d.directions = bidirectional ? 2 : 1;
  d.input = input;
  d.hidden = hidden / d.directions;
  for (const std::int64_t width : widths) d.widths.push_back(width / d.directions);
  for (const std::int64_t width : projections) d.projections.push_back(width / d.directions);
  d.dropout = dropout;
  d.peepholes = peepholes;
  d.layer_norm = layer_norm;
  d.zoneout_h = zoneout_h;
  d.zoneout_c = zoneout_c;
  d.recurrent_dropout = recurrent_dropout;
  d.hard_sigmoid = hard_sigmoid;
  return d;
}

void StackConfig::validate() const {
  check_hidden(hidden, widths, bidirectional);
  check_width("layers", layers, kMostLayers);
  check_widths(widths, layers, bidirectional);
  check_projections(*this);
  check_rate("dropout", dropout);
  check_rate("zoneout_h", zoneout_h);
  check_rate("zoneout_c", zoneout_c);
  check_rate("recurrent_dropout", recurrent_dropout);
  check_cell(*this);
  check_hard_sigmoid(hard_sigmoid, cell);
}

}  // namespace sluice::models
