#pragma once

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

namespace sluice::bench {

/// How often the events of a trace occur, by name.
struct TraceCounts {
  explicit TraceCounts(const std::filesystem::path& path) {
    std::ifstream file(path);
    const nlohmann::json trace = nlohmann::json::parse(file);
    for (const nlohmann::json& event : trace.at("traceEvents")) {
      if (event.at("ph") != "X") continue;
      auto& counts = event.at("cat") == "step" ? steps : modules;
      ++counts[event.at("name").get<std::string>()];
    }
  }

  std::map<std::string, int> steps, modules;
};

}  // namespace sluice::bench
