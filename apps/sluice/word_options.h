#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace sluice::app {

/// Words that answers must not hold, and words that they must.
struct WordFlags {
  std::vector<std::string> banned;
  std::string banned_file;
  std::int64_t no_repeat = 0;
  std::vector<std::string> forced;

  /// Banned words of the command line and of the file.
  std::vector<std::string> all_banned() const;
};

/// --ban, --banned, --no-repeat and --force.
void add_word_options(CLI::App& command, WordFlags& words);

/// --groups and --diversity.
void add_group_options(CLI::App& command, std::int64_t& groups, double& diversity);

}  // namespace sluice::app
