#include "word_options.h"

#include "sluice/text.h"

namespace sluice::app {

std::vector<std::string> WordFlags::all_banned() const {
  std::vector<std::string> all = banned;
  if (banned_file.empty()) return all;
  for (std::string& line : read_lines(banned_file)) {
    if (!line.empty()) all.push_back(std::move(line));
  }
  return all;
}

void add_word_options(CLI::App& command, WordFlags& words) {
  command
      .add_option("--ban", words.banned,
                  "Word or phrase that no answer may hold, as the vocabulary splits it; may be "
                  "given several times")
      ->allow_extra_args(false);
  command.add_option("--banned", words.banned_file,
                     "File of words and phrases that no answer may hold, one per line");
  command
      .add_option("--no-repeat", words.no_repeat,
                  "No answer may hold this many tokens in a row twice; 0: it may")
      ->capture_default_str();
  command
      .add_option(
          "--force", words.forced,
          "Word or phrase that every answer of the search must hold, wherever; may be given "
          "several times")
      ->allow_extra_args(false);
}

void add_group_options(CLI::App& command, std::int64_t& groups, double& diversity) {
  CLI::Option* option =
      command
          .add_option("--groups", groups,
                      "Split the beams into this many groups, each a search of its own that keeps "
                      "away from the tokens of those before it: answers that differ more")
          ->capture_default_str();
  command
      .add_option("--diversity", diversity,
                  "How much a group's score of a token falls for each beam of the groups before it "
                  "that has just taken the same")
      ->capture_default_str()
      ->needs(option);
}

}  // namespace sluice::app
