#pragma once

#include <CLI/CLI.hpp>

#include "sluice/segmenters.h"

namespace sluice::app {

/// --trust-segmenter, --source-segmenter and --target-segmenter, as far as a command reads texts of
/// that side.
inline void add_segmenter_options(CLI::App& command, SegmenterChoice& choice, bool source,
                                  bool target) {
  command.add_flag("--trust-segmenter", choice.trust,
                   "Run the command that the checkpoint names to segment text");
  if (source) {
    command.add_option("--source-segmenter", choice.source,
                       "Command to segment input text instead; '': the text is already segmented");
  }
  if (target) {
    command.add_option("--target-segmenter", choice.target,
                       source
                           ? "The same for targets and prefixes"
                           : "Command to segment prefixes instead; '': they are already segmented");
  }
}

}  // namespace sluice::app
