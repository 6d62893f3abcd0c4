#include "models/seq2seq_config.h"

#include <array>
#include <nlohmann/json.hpp>

#include "base/check.h"

namespace sluice::models {
namespace {

using nlohmann::ordered_json;

// Calls visit(key, member) for every key: the one list that writing and reading share.
template <typename Config, typename Visit>
void visit_keys(Config& config, Visit&& visit) {
  visit("cell", config.cell);
  visit("source_vocabulary", config.source_vocabulary);
  visit("target_vocabulary", config.target_vocabulary);
  visit("embedding", config.embedding);
  visit("hidden", config.hidden);
  visit("encoder_layers", config.encoder_layers);
  visit("decoder_layers", config.decoder_layers);
  visit("bidirectional", config.bidirectional);
  visit("attention", config.attention);
  visit("dropout", config.dropout);
}

constexpr std::int64_t kLargestWidth = 1 << 24;
constexpr std::int64_t kMostLayers = 64;

void check_range(std::string_view key, std::int64_t value, std::int64_t most) {
  SLUICE_CHECK(value >= 1 && value <= most, "model.{} is {}; it must be in 1..{}", key, value,
               most);
}

}  // namespace

void Seq2SeqConfig::validate() const {
  SLUICE_CHECK(cell == "lstm" || cell == "gru", "model.cell is '{}'; use lstm or gru", cell);
  SLUICE_CHECK(attention == "additive" || attention == "multiplicative",
               "model.attention is '{}'; use additive or multiplicative", attention);
  check_range("source_vocabulary", source_vocabulary, kLargestWidth);
  check_range("target_vocabulary", target_vocabulary, kLargestWidth);
  check_range("embedding", embedding, kLargestWidth);
  check_range("hidden", hidden, kLargestWidth);
  check_range("encoder_layers", encoder_layers, kMostLayers);
  check_range("decoder_layers", decoder_layers, kMostLayers);
  SLUICE_CHECK(!bidirectional || hidden % 2 == 0,
               "model.hidden is {}; a bidirectional encoder halves it, so it must be even", hidden);
  SLUICE_CHECK(dropout >= 0 && dropout < 1, "model.dropout is {}; it must be in [0, 1)", dropout);
}

std::string Seq2SeqConfig::to_json() const {
  ordered_json json;
  json["model"] = "seq2seq";
  visit_keys(*this, [&](const char* key, const auto& value) { json[key] = value; });
  return json.dump();
}

Seq2SeqConfig Seq2SeqConfig::from_json(std::string_view text) {
  Seq2SeqConfig config;
  try {
    ordered_json json = ordered_json::parse(text);
    SLUICE_CHECK(json.value("model", "") == "seq2seq", "the model is not of type seq2seq");
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
