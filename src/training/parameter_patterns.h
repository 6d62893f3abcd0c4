#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "layers/parameters.h"

namespace sluice::training {

/// A list of patterns for names of parameters. In a pattern, '*' stands for any characters (also
/// none, also dots) and '?' for one; all else stands for itself.
class ParameterPatterns {
 public:
  /// `list` separates patterns by commas; white space around them does not count. `key` names the
  /// configuration key for messages. Throws ErrorCode::kInvalidArgument for an empty pattern.
  ParameterPatterns(std::string_view key, std::string_view list);

  bool empty() const { return patterns_.empty(); }
  /// Whether one of the patterns is that of the whole `name`.
  bool match(std::string_view name) const;

  /// Throws ErrorCode::kInvalidArgument, naming `choice`, if a pattern is that of no parameter.
  void require_use(std::span<const layers::ParameterSpec> parameters,
                   std::span<const std::string> choice) const;

 private:
  std::string key_;
  std::vector<std::string> patterns_;
};

/// In order.
std::vector<std::string> names_of(std::span<const layers::ParameterSpec> parameters);

}  // namespace sluice::training
