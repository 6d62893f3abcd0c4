#include "models/language_model_config.h"

#include <nlohmann/json.hpp>

#include "base/check.h"
#include "kernels/recurrent/recurrent.h"

namespace sluice::models {
namespace {

using nlohmann::ordered_json;

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
}

constexpr std::int64_t kLargestWidth = 1 << 24;
constexpr std::int64_t kMostLayers = 64;

void check_range(std::string_view key, std::int64_t value, std::int64_t least, std::int64_t most) {
  SLUICE_CHECK(value >= least && value <= most, "model.{} is {}; it must be in {}..{}", key, value,
               least, most);
}

void check_rate(std::string_view key, double value) {
  SLUICE_CHECK(value >= 0 && value < 1, "model.{} is {}; it must be in [0, 1)", key, value);
}

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
  check_range("vocabulary", vocabulary, 1, kLargestWidth);
  check_range("embedding", embedding, 1, kLargestWidth);
  check_range("hidden", hidden, 1, kLargestWidth);
  check_range("layers", layers, 1, kMostLayers);
  check_range("projection", projection, 0, kLargestWidth);
  check_range("features", features, 0, kLargestWidth);
  check_rate("dropout", dropout);
  check_rate("zoneout_h", zoneout_h);
  check_rate("zoneout_c", zoneout_c);
  check_rate("recurrent_dropout", recurrent_dropout);
  check_cell(*this);
  SLUICE_CHECK(tie_embeddings == "none" || tie_embeddings == "decoder",
               "model.tie_embeddings is '{}'; a language model takes none or decoder",
               tie_embeddings);
  SLUICE_CHECK(tie_embeddings == "none" || embedding == width(),
               "model.tie_embeddings is '{}', so model.embedding must be the width of the output "
               "(model.projection, else model.hidden), but they are {} and {}",
               tie_embeddings, embedding, width());
}

std::string LanguageModelConfig::to_json() const {
  ordered_json json;
  json["model"] = kKind;
  visit_keys(*this, [&](const char* key, const auto& value) { json[key] = value; });
  return json.dump();
}

LanguageModelConfig LanguageModelConfig::from_json(std::string_view text) {
  LanguageModelConfig config;
  try {
    ordered_json json = ordered_json::parse(text);
    SLUICE_CHECK(json.value("model", "") == kKind, "the model is not of type {}", kKind);
    json.erase("model");
    visit_keys(config, [&](const char* key, auto& value) {
      json.at(key).get_to(value);
      json.erase(key);
    });
    SLUICE_CHECK(json.empty(), "unknown key '{}' in the model's configuration", json.begin().key());
  } catch (const nlohmann::json::exception& error) {
    base::fail(ErrorCode::kFormat, "the model's configuration is damaged: {}", error.what());
  }
  config.validate();
  return config;
}

}  // namespace sluice::models
