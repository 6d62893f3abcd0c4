#pragma once

#include <optional>
#include <string>

namespace sluice {

/// Which commands segment the texts that a model is given, where it was trained on texts segmented
/// by a command (data.source_segmenter, data.target_segmenter). A checkpoint names that command,
/// and who made the checkpoint could have named any: none is run unless the user says so here.
/// Without a say, text that needs one is refused with ErrorCode::kInvalidArgument.
struct SegmenterChoice {
  bool trust = false;  ///< run the commands that the checkpoint names
  /// Instead of those, for sources and for targets (and texts of a language model); empty: texts
  /// are given segmented.
  std::optional<std::string> source{};
  std::optional<std::string> target{};
};

}  // namespace sluice
