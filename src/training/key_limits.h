#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "training/train_config.h"

namespace sluice::training {

/// What the value of a key may be by itself, whatever the other keys say: the one table that
/// TrainConfig::validate and the reference page go by. What depends on other keys or on the kind of
/// model stands in TrainConfig::validate and in the tasks.
struct KeyLimits {
  std::string_view name;                           ///< as ConfigKey::name
  std::span<const std::string_view> choices = {};  ///< of a string; empty: of a number
  double least = 0;
  double most = 0;
  bool least_allowed = true;
  bool most_allowed = true;

  bool allows(double value) const;
  /// Of numbers: "at least 0 and less than 1".
  std::string range() const;
};

/// Null if a key may have any value of its type, or one that only other keys decide.
const KeyLimits* find_limits(std::string_view name);
std::span<const KeyLimits> all_limits();

/// The kinds of models that have a use for a key; empty if all have.
std::vector<std::string_view> kinds_using(std::string_view key);

/// Throws ErrorCode::kInvalidArgument naming the first key out of its limits, its value and what is
/// allowed.
void check_limits(const TrainConfig& config);

}  // namespace sluice::training
