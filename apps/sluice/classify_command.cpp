#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "placement_options.h"
#include "segmenter_options.h"
#include "sluice/classifier.h"
#include "sluice/text.h"

namespace sluice::app {
namespace {

struct Options {
  std::string model;
  Placement placement;
  SegmenterChoice segmenters;
  std::string input = "-";
  std::string output;
  std::string format = "text";
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

void run(const Options& options) {
  Classifier model = Classifier::load(options.model, options.placement, options.segmenters);
  std::string text;
  for (const Classified& answer : model.classify(read_lines(options.input))) {
    text += options.format == "json" ? as_json(answer, model.labels())
                                     : as_text(answer, model.labels());
  }
  if (options.output.empty()) {
    std::fwrite(text.data(), 1, text.size(), stdout);
  } else {
    write_text(options.output, text);
  }
}

}  // namespace

void add_classify(CLI::App& program) {
  const auto options = std::make_shared<Options>();
  CLI::App* command =
      program.add_subcommand("classify", "Label each line of text, with its probability");
  command->add_option("model", options->model, "Checkpoint folder or model.safetensors")
      ->required();
  command
      ->add_option("input", options->input,
                   "Text, plain or gzip, one input a line; - is standard input")
      ->capture_default_str();
  command->add_option("-o,--output", options->output,
                      "File for the answers (default: standard output)");
  command
      ->add_option("--format", options->format,
                   "text: label TAB probability; json: an object a line, with all probabilities")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  add_placement_options(*command, options->placement);
  add_segmenter_options(*command, options->segmenters, true, false);
  command->footer(
      "The model is one of model.kind = \"classifier\". A line without words gets what the model\n"
      "says of nothing.\n\n"
      "  echo 'the plot is thin' | sluice classify runs/reviews/best\n"
      "  sluice classify runs/reviews/best test.txt --format json -o labels.jsonl");
  command->callback([options] { run(*options); });
}

}  // namespace sluice::app
