#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "sluice/sequence_model.h"
#include "word_options.h"

namespace sluice::app {

/// The options that decode and chat share, as the command line gives them.
struct DecodeFlags {
  DecodeOptions decode;
  SampleOptions sampling;
  bool sample = false;
  std::string prefix;
  WordFlags words;

  /// Prefix and forced words are not in them: they go to every input.
  DecodeOptions options() const;
};

/// --temperature, --top-k, --top-p, --seed and --without-replacement.
void add_drawing_options(CLI::App& command, SampleOptions& sampling);

/// Options of searching and those of --sample refuse each other, by name.
void add_decode_options(CLI::App& command, DecodeFlags& flags);

}  // namespace sluice::app
