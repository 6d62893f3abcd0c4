#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "output.h"
#include "placement_options.h"
#include "segmenter_options.h"
#include "sluice/classifier.h"
#include "sluice/error.h"
#include "sluice/measure.h"
#include "sluice/text.h"
#include "state_options.h"

namespace sluice::app {
namespace {

struct Options {
  std::string model;
  Placement placement;
  SegmenterChoice segmenters;
  std::string input = "-";
  std::string output;
  std::string format = "text";
  bool score = false;
  std::string text_column, label_column;
  StateFiles states;
};

std::string as_text(const Classified& answer, const std::vector<std::string>& labels) {
  char number[32];
  std::snprintf(number, sizeof number, "\t%.6f\n", answer.probabilities[answer.label]);
  return labels[answer.label] + number;
}

std::string as_json(const Classified& answer, const std::vector<std::string>& labels) {
  nlohmann::ordered_json json;
  json["label"] = labels[answer.label];
  json["probability"] = answer.probabilities[answer.label];
  for (std::size_t i = 0; i < labels.size(); ++i) {
    json["probabilities"][labels[i]] = answer.probabilities[i];
  }
  return json.dump() + "\n";
}

/// Lines as parts of one text: what it is taken for after each.
std::vector<Classified> classify_more(Classifier& model, const std::vector<std::string>& lines) {
  std::vector<Classified> answers;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    try {
      answers.push_back(model.classify_part(lines[i]));
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kFormat) throw;
      throw Error(error.code(), "line " + std::to_string(i + 1) + ": " + error.what());
    }
  }
  return answers;
}

/// Lines of a table are none of text: their labels would be taken for words.
void refuse_table(const std::string& input, const std::string& first_line,
                  const std::pair<std::string, std::string>& columns) {
  const auto& [text, label] = columns;
  const std::vector<std::string> names = column_names(first_line);
  if (std::ranges::count(names, text) == 0 || std::ranges::count(names, label) == 0) return;
  throw Error(
      ErrorCode::kInvalidArgument,
      name_of_input(input) + " is a table with the columns '" + text + "' and '" + label +
          "'; add --score to see how many of its labels the model finds, or --text-column " + text +
          " to label its texts");
}

std::vector<std::string> texts_of(const Options& options, const Classifier& model) {
  if (!options.text_column.empty()) return read_column(options.input, options.text_column);
  std::vector<std::string> lines = read_lines(options.input);
  if (!lines.empty()) refuse_table(options.input, lines.front(), model.columns());
  return lines;
}

void score(const Options& options) {
  require_other_than(options.input, {options.output});
  require_outputs({options.output});
  const Measurement found = measure({.model = options.model,
                                     .kind = "classifier",
                                     .data = options.input,
                                     .text_column = options.text_column,
                                     .label_column = options.label_column,
                                     .placement = options.placement,
                                     .segmenters = options.segmenters});
  write_output(options.output, to_text(found));
}

void run(const Options& options) {
  require_other_than(options.input, {options.output, options.states.to});
  require_two_files(options.output, options.states.to);
  require_outputs({options.output, options.states.to});
  Classifier model = Classifier::load(options.model, options.placement, options.segmenters);
  const std::vector<std::string> lines = texts_of(options, model);
  with_states(model, options.states, [&] {
    std::string text;
    for (const Classified& answer :
         options.states.any() ? classify_more(model, lines) : model.classify(lines)) {
      text += options.format == "json" ? as_json(answer, model.labels())
                                       : as_text(answer, model.labels());
    }
    write_output(options.output, text);
  });
}

}  // namespace

void add_classify(CLI::App& program) {
  const auto options = std::make_shared<Options>();
  CLI::App* command =
      program.add_subcommand("classify", "Label each line of text, with its probability");
  add_model_argument(*command, options->model)->required();
  command
      ->add_option("input", options->input,
                   "Text, plain or gzip, one input per line; - is standard input")
      ->capture_default_str();
  command->add_option("-o,--output", options->output,
                      "File for the answers (default: standard output)");
  command
      ->add_option("--format", options->format,
                   "text: label TAB probability; json: one object per line, with all probabilities")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  CLI::Option* score_flag =
      command->add_flag("--score", options->score,
                        "The input is a table (CSV or TSV): print loss and accuracy of its labels");
  command->add_option("--text-column", options->text_column,
                      "The input is a table: label the texts of this column (default with --score: "
                      "the column of training)");
  command
      ->add_option("--label-column", options->label_column,
                   "With --score: the column of the right labels (default: the column of training)")
      ->needs(score_flag);
  add_state_options(*command, options->states, "text");
  score_flag->excludes(command->get_option("--state"));
  score_flag->excludes(command->get_option("--save-state"));
  add_placement_options(*command, options->placement);
  add_segmenter_options(*command, options->segmenters, true, false);
  command->footer(
      "The model must be of model.kind = \"classifier\". A line without words gets the answer for\n"
      "an empty text. With --state or --save-state, the lines are parts of one text, and each\n"
      "answer is for the text so far. This needs model.bidirectional = false and\n"
      "model.pooling = \"last\".\n\n"
      "  echo 'the plot is thin' | sluice classify runs/reviews/best\n"
      "  sluice classify runs/reviews/best test.txt --format json -o labels.jsonl\n"
      "  sluice classify runs/reviews/best test.csv --score\n"
      "  sluice classify runs/live/best begun.txt --save-state text.state\n"
      "  sluice classify runs/live/best more.txt --state text.state");
  command->callback([options] { options->score ? score(*options) : run(*options); });
}

}  // namespace sluice::app
