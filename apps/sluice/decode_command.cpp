#include <cstdio>
#include <memory>
#include <sstream>

#include "commands.h"
#include "decode_options.h"
#include "output.h"
#include "placement_options.h"
#include "profile_options.h"
#include "segmenter_options.h"
#include "sluice/error.h"
#include "sluice/text.h"

namespace sluice::app {
namespace {

struct Options {
  std::string model;
  Placement placement;
  SegmenterChoice segmenters;
  std::string input = "-";
  std::string output;
  std::string attention;
  std::string prefixes;
  std::string forced;
  std::string format = "text";
  bool scores = false;
  DecodeFlags flags;
};

std::int64_t answers_of(const Options& options) {
  return options.flags.sample ? options.flags.sampling.samples : options.flags.decode.nbest;
}

std::string format_hypothesis(const Options& options, std::size_t line, const Hypothesis& answer) {
  std::string text;
  // As other programs write n-best lists: the input's number before each of its answers.
  if (answers_of(options) > 1) text += std::to_string(line + 1) + "\t";
  if (options.scores) {
    char numbers[64];
    std::snprintf(numbers, sizeof numbers, "%.5f\t%.5f\t", answer.normalised_score, answer.score);
    text += numbers;
  }
  return text + answer.text + "\n";
}

std::string format_answers(const Options& options, const std::vector<Decoded>& decoded) {
  std::string text;
  for (std::size_t i = 0; i < decoded.size(); ++i) {
    if (options.format == "json") {
      text += to_json(decoded[i], i + 1) + "\n";
      continue;
    }
    for (const Hypothesis& answer : decoded[i].hypotheses) {
      text += format_hypothesis(options, i, answer);
    }
    // So that answers stay in the lines of their inputs.
    if (decoded[i].hypotheses.empty() && answers_of(options) == 1) text += "\n";
  }
  return text;
}

/// A line an input, with tabs between what is forced on its answers; --force is on all.
std::vector<std::vector<std::string>> forced_words(const Options& options, std::size_t inputs) {
  const std::vector<std::string>& of_all = options.flags.words.forced;
  std::vector<std::vector<std::string>> forced;
  if (options.forced.empty()) {
    if (!of_all.empty()) forced.assign(inputs, of_all);
    return forced;
  }
  for (const std::string& line : read_lines(options.forced)) {
    std::vector<std::string>& words = forced.emplace_back(of_all);
    std::istringstream cells(line);
    for (std::string word; std::getline(cells, word, '\t');) {
      if (!word.empty()) words.push_back(word);
    }
  }
  if (forced.size() != inputs) {
    throw Error(ErrorCode::kInvalidArgument, "lines of --forced: " + std::to_string(forced.size()) +
                                                 ", of the input: " + std::to_string(inputs) +
                                                 "; it needs one for each");
  }
  return forced;
}

void run(const Options& options) {
  require_other_than(options.input, {options.output, options.attention});
  require_outputs({options.output, options.attention});
  SequenceModel model = SequenceModel::load(options.model, options.placement, options.segmenters);
  const std::vector<std::string> lines = read_lines(options.input);
  if (!options.attention.empty() && lines.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "--attention needs at least one line of input");
  }
  DecodeOptions decode = options.flags.options();
  decode.attention = !options.attention.empty();
  decode.forced = forced_words(options, lines.size());
  if (!options.prefixes.empty()) {
    decode.prefixes = read_lines(options.prefixes);
    // None at all would ask for no prefix.
    if (decode.prefixes.size() != lines.size()) {
      throw Error(ErrorCode::kInvalidArgument,
                  "lines of --prefixes: " + std::to_string(decode.prefixes.size()) +
                      ", of the input: " + std::to_string(lines.size()) +
                      "; it needs one for each");
    }
  } else if (!options.flags.prefix.empty()) {
    decode.prefixes.assign(lines.size(), options.flags.prefix);
  }
  const std::vector<Decoded> decoded = model.decode(lines, decode);
  const std::string text = format_answers(options, decoded);
  write_output(options.output, text);
  if (options.attention.empty()) return;
  if (decoded.front().hypotheses.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                "the first input has no answer whose attention could be drawn");
  }
  write_text(options.attention, attention_svg(decoded.front(), 0));
}

void add_options(CLI::App& command, Options& options) {
  add_model_argument(command, options.model)->required();
  command
      .add_option("input", options.input,
                  "Text, plain or gzip, one input per line; - is standard input")
      ->capture_default_str();
  command.add_option("-o,--output", options.output,
                     "File for the answers (default: standard output)");
  add_placement_options(command, options.placement);
  add_segmenter_options(command, options.segmenters, true, true);
  add_decode_options(command, options.flags);
  CLI::Option* sample = command.get_option("--sample");
  command.add_option("--samples", options.flags.sampling.samples, "Answers to draw for each input")
      ->capture_default_str()
      ->needs(sample);
  command.add_option("--nbest", options.flags.decode.nbest, "Best answers to print for each input")
      ->capture_default_str()
      ->excludes(sample);
  command
      .add_option("--prefixes", options.prefixes,
                  "File of texts that the answers must begin with, one line per input")
      ->excludes(command.get_option("--prefix"));
  command
      .add_option("--forced", options.forced,
                  "File of what the answers must hold, one line per input: words and phrases with "
                  "tabs between them")
      ->excludes(sample);
  command.add_option("--batch", options.flags.decode.batch, "Inputs decoded together; 0: 32")
      ->capture_default_str();
  command
      .add_option("--format", options.format,
                  "text; or json: one object per input, with its answers, their scores and tokens")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  command.add_flag("--scores", options.scores,
                   "Print normalised score and log p before each answer, tab-separated");
  command.add_option("--attention", options.attention,
                     "Draw where the first input's best answer looked (SVG file)");
  add_profile_options(command, options.flags.decode.profile,
                      "batches of inputs, the longest first (default: 1:5)");
}

}  // namespace

void add_decode(CLI::App& program) {
  const auto options = std::make_shared<Options>();
  CLI::App* command =
      program.add_subcommand("decode", "Answer each line of text by beam search, or draw answers");
  add_options(*command, *options);
  command->footer(
      "  echo 'the 5th of March, 1994' | sluice decode runs/demo/best\n"
      "  sluice decode runs/de/best test.en -o test.de --beam 5\n"
      "  sluice decode runs/de/best test.en --nbest 3 --scores\n"
      "  sluice decode runs/de/best test.en --sample --samples 3 --temperature 0.8 --top-p 0.95\n"
      "  sluice decode runs/de/best test.en --prefix 'Ein' --format json\n"
      "  sluice decode runs/de/best test.en --force 'Haus' --ban 'Heim' --no-repeat 3\n"
      "  sluice decode runs/de/best test.en --beam 12 --groups 4 --nbest 4\n"
      "  sluice decode runs/de/best test.en --sample --samples 8 --without-replacement\n"
      "  sluice decode runs/de/best test.en -o test.de --breakdown");
  command->callback([options] { run(*options); });
}

}  // namespace sluice::app
