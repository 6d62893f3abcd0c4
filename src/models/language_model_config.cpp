#include "models/language_model_config.h"

#include "base/check.h"
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
  visit("embedding", config.embedding);
  visit("hidden", config.hidden);
  visit("layers", config.layers);
  visit("projection", config.projection);
  visit("dropout", config.dropout);
  visit("tie_embeddings", config.tie_embeddings);
  visit("features", config.features);
  visit("peepholes", config.peepholes);
  visit("layer_norm", config.layer_norm);
  visit("zoneout_h", config.zoneout_h);
  visit("zoneout_c", config.zoneout_c);
  visit("recurrent_dropout", config.recurrent_dropout);
  visit("hard_sigmoid", config.hard_sigmoid);
}

constexpr std::int64_t kMostLayers = 64;

void check_cell(const LanguageModelConfig& config) {
  namespace recurrent = kernels::recurrent;
  const bool is_lstm = recurrent::parse_cell(config.cell) == recurrent::CellType::kLstm;
  const auto check_lstm = [&](bool on, std::string_view key, std::string_view what) {
    SLUICE_CHECK(is_lstm || !on, "model.{} is set, but only an lstm has {}; model.cell is '{}'",
                 key, what, config.cell);
  };
  check_lstm(config.projection > 0, "projection", "a projection");
  check_lstm(config.peepholes, "peepholes", "peepholes");
  check_lstm(config.layer_norm, "layer_norm", "layer norm");
  check_lstm(config.zoneout_c > 0, "zoneout_c", "a cell state");
  SLUICE_CHECK(!config.layer_norm || (!config.peepholes && config.projection == 0),
               "model.layer_norm is on, but an lstm with {} has none",
               config.peepholes ? "model.peepholes" : "model.projection");
}

}  // namespace

void LanguageModelConfig::validate() const {
  check_width("vocabulary", vocabulary);
  check_width("embedding", embedding);
  check_width("hidden", hidden);
  check_width("layers", layers, kMostLayers);
  if (projection != 0) check_width("projection", projection);
  if (features != 0) check_width("features", features);
  check_rate("dropout", dropout);
  check_rate("zoneout_h", zoneout_h);
  check_rate("zoneout_c", zoneout_c);
  check_rate("recurrent_dropout", recurrent_dropout);
  check_cell(*this);
  check_hard_sigmoid(hard_sigmoid, cell);
  SLUICE_CHECK(tie_embeddings == "none" || tie_embeddings == "decoder",
               "model.tie_embeddings is '{}'; a language model takes none or decoder",
               tie_embeddings);
  SLUICE_CHECK(tie_embeddings == "none" || embedding == width(),
               "model.tie_embeddings is '{}', so model.embedding must be the width of the output "
               "(model.projection, else model.hidden), but they are {} and {}",
               tie_embeddings, embedding, width());
}

std::string LanguageModelConfig::to_json() const {
  return write_config(kKind, [&](auto&& visit) { visit_keys(*this, visit); });
}

LanguageModelConfig LanguageModelConfig::from_json(std::string_view text) {
  LanguageModelConfig config;
  read_config(kKind, text, [&](auto&& visit) { visit_keys(config, visit); });
  config.validate();
  return config;
}

}  // namespace sluice::models
