#include "models/seq2seq_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "models/stack_config.h"

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

// Those that came later: of a model without, nothing is written, and what isn't there is off.
template <typename Config, typename Visit>
void visit_later_keys(Config& config, Visit&& visit) {
  visit("encoder_peepholes", config.encoder_peepholes);
  visit("encoder_layer_norm", config.encoder_layer_norm);
  visit("encoder_zoneout_h", config.encoder_zoneout_h);
  visit("encoder_zoneout_c", config.encoder_zoneout_c);
  visit("encoder_recurrent_dropout", config.encoder_recurrent_dropout);
  visit("tie_embeddings", config.tie_embeddings);
}

constexpr std::int64_t kMostLayers = 64;

}  // namespace

void Seq2SeqConfig::validate() const {
  constexpr std::array<std::string_view, 5> kCells{"lstm", "gru", "gru_reset_before", "rnn_tanh",
                                                   "rnn_relu"};
  SLUICE_CHECK(std::ranges::find(kCells, cell) != kCells.end(),
               "model.cell is '{}'; an encoder-decoder has {}", cell, fmt::join(kCells, ", "));
  SLUICE_CHECK(attention == "additive" || attention == "multiplicative" || attention == "none",
               "model.attention is '{}'; use additive, multiplicative or none", attention);
  check_width("source_vocabulary", source_vocabulary);
  check_width("target_vocabulary", target_vocabulary);
  check_width("embedding", embedding);
  check_width("hidden", hidden);
  check_width("encoder_layers", encoder_layers, kMostLayers);
  check_width("decoder_layers", decoder_layers, kMostLayers);
  SLUICE_CHECK(attends() || encoder_layers <= decoder_layers,
               "model.attention is 'none', so layer l of the decoder starts from layer l of the "
               "encoder, and what is above does nothing: model.encoder_layers is {}, so "
               "model.decoder_layers must be as many, not {}",
               encoder_layers, decoder_layers);
  SLUICE_CHECK(!bidirectional || hidden % 2 == 0,
               "model.hidden is {}; a bidirectional encoder halves it, so it must be even", hidden);
  check_rate("dropout", dropout);
  SLUICE_CHECK(tie_embeddings == "none" || tie_embeddings == "decoder" || tie_embeddings == "all",
               "model.tie_embeddings is '{}'; use none, decoder or all", tie_embeddings);
  SLUICE_CHECK(
      tie_embeddings == "none" || embedding == hidden,
      "model.tie_embeddings is '{}', so model.embedding must be model.hidden, but they are "
      "{} and {}",
      tie_embeddings, embedding, hidden);
  SLUICE_CHECK(tie_embeddings != "all" || source_vocabulary == target_vocabulary,
               "model.tie_embeddings is 'all', but the vocabularies have {} and {} ids",
               source_vocabulary, target_vocabulary);
  check_rate("encoder_zoneout_h", encoder_zoneout_h);
  check_rate("encoder_zoneout_c", encoder_zoneout_c);
  check_rate("encoder_recurrent_dropout", encoder_recurrent_dropout);
  SLUICE_CHECK(cell == "lstm" || !encoder_peepholes,
               "model.encoder_peepholes is on, but only an lstm has peepholes");
  SLUICE_CHECK(!encoder_layer_norm || (cell == "lstm" && !encoder_peepholes),
               "model.encoder_layer_norm is on, but only an lstm without peepholes has layer norm");
  SLUICE_CHECK(cell == "lstm" || encoder_zoneout_c == 0,
               "model.encoder_zoneout_c is {}, but only an lstm has a cell state",
               encoder_zoneout_c);
}

std::string Seq2SeqConfig::to_json() const {
  ordered_json json;
  json["model"] = kKind;
  visit_keys(*this, [&](const char* key, const auto& value) { json[key] = value; });
  ordered_json off;
  const Seq2SeqConfig plain;
  visit_later_keys(plain, [&](const char* key, const auto& value) { off[key] = value; });
  visit_later_keys(*this, [&](const char* key, const auto& value) {
    if (off[key] != value) json[key] = value;
  });
  return json.dump();
}

Seq2SeqConfig Seq2SeqConfig::from_json(std::string_view text) {
  Seq2SeqConfig config;
  try {
    ordered_json json = ordered_json::parse(text);
    SLUICE_CHECK(json.value("model", "") == kKind, "the model is not of type {}", kKind);
    json.erase("model");
    visit_keys(config, [&](const char* key, auto& value) {
      json.at(key).get_to(value);
      json.erase(key);
    });
    visit_later_keys(config, [&](const char* key, auto& value) {
      if (!json.contains(key)) return;
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
