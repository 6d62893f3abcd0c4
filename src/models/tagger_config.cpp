#include "models/tagger_config.h"

#include "base/check.h"
#include "kernels/crf/crf.h"
#include "kernels/recurrent/recurrent.h"
#include "models/config_json.h"
#include "models/stack_config.h"

namespace sluice::models {
namespace {

// Calls visit(key, member) for every key: the one list that writing and reading share.
template <typename Config, typename Visit>
void visit_keys(Config& config, Visit&& visit) {
  visit("cell", config.cell);
  visit("vocabulary", config.vocabulary);
  visit("labels", config.labels);
  visit("embedding", config.embedding);
  visit("hidden", config.hidden);
  visit("widths", config.widths);
  visit("layers", config.layers);
  visit("bidirectional", config.bidirectional);
  visit("output", config.output);
  visit("dropout", config.dropout);
  visit("peepholes", config.peepholes);
  visit("layer_norm", config.layer_norm);
  visit("zoneout_h", config.zoneout_h);
  visit("zoneout_c", config.zoneout_c);
  visit("recurrent_dropout", config.recurrent_dropout);
  visit("hard_sigmoid", config.hard_sigmoid);
}

constexpr std::int64_t kMostLayers = 64;

void check_cell(const TaggerConfig& config) {
  namespace recurrent = kernels::recurrent;
  const bool is_lstm = recurrent::parse_cell(config.cell) == recurrent::CellType::kLstm;
  const auto check_lstm = [&](bool on, std::string_view key, std::string_view what) {
    SLUICE_CHECK(is_lstm || !on, "model.{} is set, but only an lstm has {}; model.cell is '{}'",
                 key, what, config.cell);
  };
  check_lstm(config.peepholes, "peepholes", "peepholes");
  check_lstm(config.layer_norm, "layer_norm", "layer norm");
  check_lstm(config.zoneout_c > 0, "zoneout_c", "a cell state");
  SLUICE_CHECK(!config.layer_norm || !config.peepholes,
               "model.layer_norm is on, but an lstm with model.peepholes has none");
}

}  // namespace

void TaggerConfig::validate() const {
  check_width("vocabulary", vocabulary);
  check_width("labels", labels, kernels::crf::kMostLabels);
  check_width("embedding", embedding);
  check_hidden(hidden, widths, bidirectional);
  check_width("layers", layers, kMostLayers);
  check_widths(widths, layers, bidirectional);
  SLUICE_CHECK(output == "crf" || output == "softmax",
               "model.output is '{}'; a tagger takes crf or softmax", output);
  check_rate("dropout", dropout);
  check_rate("zoneout_h", zoneout_h);
  check_rate("zoneout_c", zoneout_c);
  check_rate("recurrent_dropout", recurrent_dropout);
  check_cell(*this);
  check_hard_sigmoid(hard_sigmoid, cell);
}

std::string TaggerConfig::refuse_parts() const {
  if (has_crf()) return "the model scores all labels of a sentence together, by a CRF";
  if (!bidirectional) return "";
  return "the model is bidirectional, so its first label depends on the last token";
}

std::string TaggerConfig::to_json() const {
  return write_config(kKind, [&](auto&& visit) { visit_keys(*this, visit); });
}

TaggerConfig TaggerConfig::from_json(std::string_view text) {
  TaggerConfig config;
  read_config(kKind, text, [&](auto&& visit) { visit_keys(config, visit); });
  config.validate();
  return config;
}

}  // namespace sluice::models
