#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "models/stack_config.h"

namespace sluice::models {

/// Architecture of a classifier of token sequences; stored in the checkpoint.
struct ClassifierConfig {
  static constexpr std::string_view kKind = "classifier";

  std::int64_t vocabulary = 0;
  std::int64_t classes = 0;
  std::int64_t embedding = 256;  ///< width
  /// Its dropout goes for embeddings and for what the output layer reads, too.
  StackConfig stack = {.bidirectional = true};
  std::string pooling = "attention";  ///< last, mean, max or attention

  /// Why its sequences can't come in parts, each answered before the next is there; empty if they
  /// can.
  std::string refuse_parts() const;
  /// Throws ErrorCode::kInvalidArgument with the key and what is allowed.
  void validate() const;
  /// JSON text as stored in the checkpoint; from_json refuses missing, unknown or mistyped keys.
  std::string to_json() const;
  static ClassifierConfig from_json(std::string_view text);
};

}  // namespace sluice::models
