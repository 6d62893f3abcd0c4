#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "training/train_config.h"

namespace sluice::training {

/// Where the value of a key lives in a TrainConfig; the alternative is the key's type.
using KeyTarget = std::variant<std::string*, std::int64_t*, double*, bool*>;

/// One key of the configuration: the one table that reading, overrides, the reference text and
/// writing share.
struct ConfigKey {
  std::string_view name;  ///< "section.key"
  KeyTarget (*target)(TrainConfig&);
  ResumeRule rule;
  std::string_view help;  ///< one sentence

  std::string_view section() const { return name.substr(0, name.find('.')); }
  std::string_view key() const { return name.substr(name.find('.') + 1); }
  /// "string", "integer", "number" or "boolean"
  std::string_view type() const;
  /// The value as TOML spells it.
  std::string value_of(const TrainConfig& config) const;
};

/// In the order in which they are listed and written; keys of a section stand together.
std::span<const ConfigKey> config_keys();

/// Null if there is none of that name.
const ConfigKey* find_key(std::string_view name);

/// "; did you mean 'training.seed'?", or where keys are listed.
std::string suggest_key(std::string_view name);

}  // namespace sluice::training
