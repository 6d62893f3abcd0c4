#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "base/suggest.h"
#include "io/file.h"
#include "training/config_keys.h"
#include "training/train_config.h"

namespace sluice::training {
namespace {

using base::fail;

constexpr std::uint64_t kLargestFile = 1 << 20;

std::string place_of(std::string_view origin, const toml::source_region& source) {
  return fmt::format("'{}', line {}", origin, source.begin.line);
}

/// The node as T, without TOML++'s own conversions; an integer may stand for a number.
bool read_node(const toml::node& node, std::string* value) {
  const auto found = node.value_exact<std::string>();
  if (found) *value = *found;
  return found.has_value();
}
bool read_node(const toml::node& node, std::int64_t* value) {
  const auto found = node.value_exact<std::int64_t>();
  if (found) *value = *found;
  return found.has_value();
}
bool read_node(const toml::node& node, double* value) {
  if (const auto whole = node.value_exact<std::int64_t>()) {
    *value = static_cast<double>(*whole);
    return true;
  }
  const auto found = node.value_exact<double>();
  if (found) *value = *found;
  return found.has_value();
}
bool read_node(const toml::node& node, bool* value) {
  const auto found = node.value_exact<bool>();
  if (found) *value = *found;
  return found.has_value();
}

void set_key(TrainConfig& config, const std::string& name, const toml::node& node,
             std::string_view origin) {
  const ConfigKey* key = find_key(name);
  if (key == nullptr) {
    fail(ErrorCode::kInvalidArgument, "{}: unknown key '{}'{}", place_of(origin, node.source()),
         name, suggest_key(name));
  }
  const bool read =
      std::visit([&](auto* value) { return read_node(node, value); }, key->target(config));
  if (!read) {
    fail(ErrorCode::kInvalidArgument, "{}: {} must be of type {}, such as {}",
         place_of(origin, node.source()), name, key->type(), key->value_of(TrainConfig()));
  }
}

void set_section(TrainConfig& config, std::string_view section, const toml::node& node,
                 std::string_view origin) {
  std::vector<std::string_view> sections;
  for (const ConfigKey& key : config_keys()) {
    if (sections.empty() || sections.back() != key.section()) sections.push_back(key.section());
  }
  const toml::table* table = node.as_table();
  if (table == nullptr) {
    fail(ErrorCode::kInvalidArgument, "{}: unknown key '{}' outside of any section{}",
         place_of(origin, node.source()), section, suggest_key(section));
  }
  if (std::find(sections.begin(), sections.end(), section) == sections.end()) {
    fail(ErrorCode::kInvalidArgument, "{}: unknown section [{}]{}", place_of(origin, node.source()),
         section, base::did_you_mean(section, sections));
  }
  for (const auto& [key, value] : *table) {
    set_key(config, fmt::format("{}.{}", section, key.str()), value, origin);
  }
}

}  // namespace

TrainConfig parse_train_config(std::string_view text, std::string_view origin) {
  toml::table root;
  try {
    root = toml::parse(text, origin);
  } catch (const toml::parse_error& error) {
    fail(ErrorCode::kFormat, "{}: {}", place_of(origin, error.source()), error.description());
  }
  TrainConfig config;
  for (const auto& [section, node] : root) set_section(config, section.str(), node, origin);
  return config;
}

TrainConfig read_train_config(const std::filesystem::path& path) {
  return parse_train_config(io::read_file(path, kLargestFile), path.native());
}

}  // namespace sluice::training
