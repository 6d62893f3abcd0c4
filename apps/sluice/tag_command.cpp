#include <cstdio>
#include <memory>

#include "commands.h"
#include "output.h"
#include "placement_options.h"
#include "profile_options.h"
#include "sluice/error.h"
#include "sluice/tagger.h"
#include "sluice/text.h"
#include "state_options.h"

namespace sluice::app {
namespace {

struct Options {
  std::string model;
  Placement placement;
  std::string input = "-";
  std::string output;
  std::string format = "conll";
  ConllColumns columns{.token = 1, .label = -1};
  bool score = false;
  TagOptions tag;
  StateFiles states;
};

std::string score_line(const EntityScores::Type& type) {
  char line[256];
  std::snprintf(line, sizeof line,
                "%-20s precision %6.2f%%  recall %6.2f%%  F1 %6.2f%%  %lld found, %lld expected, "
                "%lld right\n",
                type.name.c_str(), 100 * type.precision, 100 * type.recall, 100 * type.f1,
                static_cast<long long>(type.predicted), static_cast<long long>(type.expected),
                static_cast<long long>(type.correct));
  return line;
}

std::string show(const EntityScores& scores, std::size_t sentences) {
  std::string text;
  for (const EntityScores::Type& type : scores.types) text += score_line(type);
  text += score_line(scores.all);
  char line[160];
  std::snprintf(
      line, sizeof line, "# %s, %s, %.2f%% of labels right\n",
      counted(static_cast<std::int64_t>(sentences), "sentence").c_str(),
      counted(scores.tokens, "token").c_str(),
      100 * static_cast<double>(scores.correct_tokens) / static_cast<double>(scores.tokens));
  return text + line;
}

/// The input as more of one sentence.
std::vector<TaggedSentence> tag_more(Tagger& tagger, const std::vector<TaggedSentence>& read,
                                     const Options& options) {
  if (read.size() > 1) {
    throw Error(ErrorCode::kInvalidArgument,
                "a state is of one sentence, but " + name_of_input(options.input) + " holds " +
                    std::to_string(read.size()) +
                    " (a blank line ends a sentence); give one at a time");
  }
  // A part may be empty: the last one then ends the sentence and adds nothing to it.
  const TaggedSentence part = read.empty() ? TaggedSentence{} : read.front();
  return {tagger.tag_part(part.tokens)};
}

std::vector<TaggedSentence> tag_all(Tagger& tagger, const std::vector<TaggedSentence>& read,
                                    const Options& options) {
  std::vector<std::vector<std::string>> sentences;
  for (const TaggedSentence& sentence : read) sentences.push_back(sentence.tokens);
  return tagger.tag(sentences, options.tag);
}

/// What the command says of the sentences it read.
std::string answer(Tagger& tagger, const std::vector<TaggedSentence>& read,
                   const Options& options) {
  const std::vector<TaggedSentence> tagged =
      options.states.any() ? tag_more(tagger, read, options) : tag_all(tagger, read, options);
  if (options.score) {
    if (read.empty()) throw Error(ErrorCode::kInvalidArgument, "there is nothing to score");
    return show(score_entities(tagged, read), read.size());
  }
  const auto write = options.format == "json" ? to_json : to_conll;
  std::string text;
  for (const TaggedSentence& sentence : tagged) text += write(sentence);
  // The blank line ends a sentence, and this one goes on.
  const bool goes_on = !options.states.to.empty() && options.format == "conll";
  if (goes_on && !text.empty()) text.pop_back();
  return text;
}

void run(const Options& options) {
  require_other_than(options.input, {options.output, options.states.to});
  require_two_files(options.output, options.states.to);
  require_outputs({options.output, options.states.to});
  Tagger tagger = Tagger::load(options.model, options.placement);
  ConllColumns columns = options.columns;
  if (!options.score) columns.label = 0;
  const std::vector<TaggedSentence> read = read_conll(options.input, columns);
  with_states(tagger, options.states,
              [&] { write_output(options.output, answer(tagger, read, options)); });
}

}  // namespace

void add_tag(CLI::App& program) {
  const auto options = std::make_shared<Options>();
  CLI::App* command = program.add_subcommand("tag", "Give each token of sentences a label");
  add_model_argument(*command, options->model)->required();
  command
      ->add_option("input", options->input,
                   "Sentences, plain or gzip: one token per line, further columns after tabs (or "
                   "spaces), a blank line after each sentence; - is standard input")
      ->capture_default_str();
  command->add_option("-o,--output", options->output,
                      "File for the labels (default: standard output)");
  command
      ->add_option(
          "--format", options->format,
          "conll (lines token TAB label) or json (one sentence per line, with its entities)")
      ->check(CLI::IsMember({"conll", "json"}))
      ->capture_default_str();
  command
      ->add_option("--token-column", options->columns.token,
                   "Column of the token, counted from 1, or from the end: -1 is the last")
      ->capture_default_str();
  command->add_flag("--score", options->score,
                    "Print precision, recall and F1 against the labels in the input");
  command
      ->add_option("--label-column", options->columns.label,
                   "With --score: column of the right label, counted in the same way")
      ->capture_default_str();
  add_state_options(*command, options->states, "sentence");
  add_placement_options(*command, options->placement);
  command->add_option("--batch", options->tag.batch, "Sentences tagged together; 0: 64")
      ->capture_default_str();
  add_profile_options(*command, options->tag.profile,
                      "batches of sentences, the longest first (default: 1:5)");
  // A part is no batch, and its labels are not those of a sentence to score.
  for (const char* whole : {"--score", "--batch", "--trace", "--trace-steps", "--breakdown"}) {
    for (const char* state : {"--state", "--save-state"}) {
      command->get_option(whole)->excludes(command->get_option(state));
    }
  }
  command->footer(
      "Labels such as B-person, I-person and O mark entities. Their precision, recall and F1 "
      "equal\n"
      "those of conlleval and of the seqeval package.\n\n"
      "A model of one direction with a softmax can read a sentence in parts, with --state and\n"
      "--save-state. The part without --save-state is the last one; a blank line follows its\n"
      "labels. It may be empty. An entity that spans two parts shows as two.\n\n"
      "  printf 'Ann\\nsees\\nRome\\n' | sluice tag runs/ner/best\n"
      "  sluice tag runs/ner/best test.conll -o tagged.conll\n"
      "  sluice tag runs/ner/best test.conll --format json\n"
      "  sluice tag runs/ner/best test.conll --score\n"
      "  sluice tag runs/stream/best begun.txt --save-state sentence.state\n"
      "  sluice tag runs/stream/best more.txt --state sentence.state --save-state sentence.state\n"
      "  sluice tag runs/stream/best --state sentence.state < /dev/null    # nothing more");
  command->callback([options] { run(*options); });
}

}  // namespace sluice::app
