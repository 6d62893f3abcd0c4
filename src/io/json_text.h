#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "base/check.h"

namespace sluice::io {

/// Reads the text of a container, an object of JSON, by one list of its keys: `visit_keys(visit)`
/// calls visit(key, member) for each. Throws ErrorCode::kFormat, naming `origin`, if a key lacks,
/// has another type or is not known.
template <typename VisitKeys>
void read_json(std::string_view text, std::string_view origin, const VisitKeys& visit_keys) {
  try {
    nlohmann::ordered_json json = nlohmann::ordered_json::parse(text);
    visit_keys([&](const char* key, auto& value) {
      json.at(key).get_to(value);
      json.erase(key);
    });
    if (!json.empty()) {
      base::fail(ErrorCode::kFormat, "'{}': unknown key '{}'", origin, json.begin().key());
    }
  } catch (const nlohmann::json::exception& error) {
    base::fail(ErrorCode::kFormat, "'{}': its JSON text is damaged: {}", origin, error.what());
  }
}

}  // namespace sluice::io
