#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "models/stack_config.h"

namespace sluice::models {

/// Architecture of a recurrent stack on dense features, such as frames of speech or readings of
/// sensors; stored in the checkpoint.
struct FeaturesConfig {
  static constexpr std::string_view kKind = "features";

  std::int64_t features = 0;  ///< numbers of a frame
  /// Whether frames are shifted and scaled, by numbers that are parameters but not trained.
  bool normalize = true;
  /// Its dropout goes for what the output layer reads, too.
  StackConfig stack;
  std::string target = "values";  ///< values (regression) or classes
  std::int64_t outputs = 0;       ///< values, or classes
  /// none: an output for each frame; last, mean, max or attention: one for a sequence.
  std::string pooling = "none";
  /// Without one, the outputs are the features of the stack's last layer.
  bool output_layer = true;

  bool has_classes() const { return target == "classes"; }
  bool is_per_frame() const { return pooling == "none"; }
  /// Why its sequences can't come in parts, each answered before the next is there; empty if they
  /// can.
  std::string refuse_parts() const;
  /// Throws ErrorCode::kInvalidArgument with the key and what is allowed.
  void validate() const;
  /// JSON text as stored in the checkpoint; from_json refuses missing, unknown or mistyped keys.
  std::string to_json() const;
  static FeaturesConfig from_json(std::string_view text);
};

}  // namespace sluice::models
