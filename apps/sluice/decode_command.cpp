#include <cstdio>
#include <memory>

#include "commands.h"
#include "decode_options.h"
#include "placement_options.h"
#include "profile_options.h"
#include "sluice/error.h"
#include "sluice/text.h"

namespace sluice::app {
namespace {

struct Options {
  std::string model;
  Placement placement;
  std::string input = "-";
  std::string output;
  std::string attention;
  bool scores = false;
  DecodeOptions decode;
};

std::string format_hypothesis(const Options& options, std::size_t line, const Hypothesis& answer) {
  std::string text;
  // As other programs write n-best lists: the input's number before each of its answers.
  if (options.decode.nbest > 1) text += std::to_string(line + 1) + "\t";
  if (options.scores) {
    char numbers[64];
    std::snprintf(numbers, sizeof numbers, "%.5f\t%.5f\t", answer.normalised_score, answer.score);
    text += numbers;
  }
  return text + answer.text + "\n";
}

void run(const Options& options) {
  SequenceModel model = SequenceModel::load(options.model, options.placement);
  const std::vector<std::string> lines = read_lines(options.input);
  if (!options.attention.empty() && lines.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "--attention needs at least one line of input");
  }
  const std::vector<Decoded> decoded = model.decode(lines, options.decode);
  std::string text;
  for (std::size_t i = 0; i < decoded.size(); ++i) {
    for (const Hypothesis& answer : decoded[i].hypotheses) {
      text += format_hypothesis(options, i, answer);
    }
  }
  if (options.output.empty()) {
    std::fwrite(text.data(), 1, text.size(), stdout);
  } else {
    write_text(options.output, text);
  }
  if (!options.attention.empty()) write_text(options.attention, attention_svg(decoded.front(), 0));
}

}  // namespace

void add_decode(CLI::App& program) {
  const auto options = std::make_shared<Options>();
  CLI::App* command = program.add_subcommand("decode", "Answer each line of text with beam search");
  command->add_option("model", options->model, "Checkpoint folder or model.safetensors")
      ->required();
  command
      ->add_option("input", options->input,
                   "Text, plain or gzip, one input a line; - is standard input")
      ->capture_default_str();
  command->add_option("-o,--output", options->output,
                      "File for the answers (default: standard output)");
  add_placement_options(*command, options->placement);
  add_decode_options(*command, options->decode);
  command->add_option("--nbest", options->decode.nbest, "Answers to print for each input")
      ->capture_default_str();
  command->add_option("--batch", options->decode.batch, "Inputs decoded together")
      ->capture_default_str();
  command->add_flag("--scores", options->scores,
                    "Print normalised score and log p before each answer, tab-separated");
  command->add_option("--attention", options->attention,
                      "Draw where the first input's best answer looked (SVG file)");
  add_profile_options(*command, options->decode.profile,
                      "batches of inputs, the longest first (default: 1:5)");
  command->footer(
      "  echo 'the 5th of March, 1994' | sluice decode runs/demo/best\n"
      "  sluice decode runs/de/best test.en -o test.de --beam 5\n"
      "  sluice decode runs/de/best test.en --nbest 3 --scores\n"
      "  sluice decode runs/de/best test.en -o test.de --breakdown");
  command->callback([options] {
    options->decode.attention = !options->attention.empty();
    run(*options);
  });
}

}  // namespace sluice::app
