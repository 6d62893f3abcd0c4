#pragma once

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/check.h"

/// Configurations as JSON text, {"model": kind, ...}, by one list of their keys:
/// `visit_keys(visit)` calls visit(key, member) for each.
namespace sluice::models {

/// Keys that models of earlier versions lack. One with its default, which is an empty or zero
/// value, is not written, so that earlier versions read a model that has no use for it.
inline constexpr std::array<std::string_view, 2> kOptionalKeys{"widths", "hard_sigmoid"};

inline bool is_optional(std::string_view key) {
  return std::ranges::find(kOptionalKeys, key) != kOptionalKeys.end();
}

template <typename VisitKeys>
std::string write_config(std::string_view kind, const VisitKeys& visit_keys) {
  nlohmann::ordered_json json;
  json["model"] = kind;
  visit_keys([&](const char* key, const auto& value) {
    if (!is_optional(key) || value != std::remove_cvref_t<decltype(value)>{}) json[key] = value;
  });
  return json.dump();
}

/// Fills in the members. Refuses another kind (ErrorCode::kInvalidArgument) and missing (but
/// optional ones), unknown or mistyped keys (kFormat).
template <typename VisitKeys>
void read_config(std::string_view kind, std::string_view text, const VisitKeys& visit_keys) {
  try {
    nlohmann::ordered_json json = nlohmann::ordered_json::parse(text);
    SLUICE_CHECK(json.value("model", "") == kind, "the model is not of type {}", kind);
    json.erase("model");
    visit_keys([&](const char* key, auto& value) {
      if (is_optional(key) && !json.contains(key)) return;
      json.at(key).get_to(value);
      json.erase(key);
    });
    if (!json.empty()) {
      base::fail(ErrorCode::kFormat, "unknown key '{}' in the model's configuration",
                 json.begin().key());
    }
  } catch (const nlohmann::json::exception& error) {
    base::fail(ErrorCode::kFormat, "the model's configuration is damaged: {}", error.what());
  }
}

}  // namespace sluice::models
