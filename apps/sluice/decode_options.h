#pragma once

#include <CLI/CLI.hpp>

#include "sluice/sequence_model.h"

namespace sluice::app {

/// The options that decode and chat share.
inline void add_decode_options(CLI::App& command, DecodeOptions& options) {
  command.add_option("--beam", options.beam, "Beams of the search; 1 is greedy")
      ->capture_default_str();
  command
      .add_option("--length-penalty", options.length_penalty,
                  "Hypotheses compete by score / ((5 + length) / 6)^PENALTY; 0 for none")
      ->capture_default_str();
  command.add_option("--min-length", options.min_length, "Fewest tokens of an answer")
      ->capture_default_str();
  command
      .add_option("--max-length", options.max_length,
                  "Most tokens of an answer, which also has at most twice as many as its input, "
                  "plus 20")
      ->capture_default_str();
}

}  // namespace sluice::app
