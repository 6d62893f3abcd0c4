#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "commands.h"
#include "output.h"
#include "placement_options.h"
#include "segmenter_options.h"
#include "sluice/check.h"
#include "sluice/error.h"

namespace sluice::app {
namespace {

struct Options {
  std::string model;
  std::string input;
  std::string targets;
  std::string features;
  CheckSide side;
  SegmenterChoice segmenters;
  std::string against;
  std::string record;
  double tolerance = 0;
  std::string format = "text";
  std::string output;
};

/// Words such as precision=bfloat16, unless there is a file of that name.
bool names_side(const std::string& against) {
  return against.find('=') != std::string::npos && !std::filesystem::exists(against);
}

/// The error of --against if it is neither a side nor a file; else empty.
std::string refuse_side(const std::string& against) {
  if (!names_side(against)) return "";
  try {
    other_side({}, against);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

CheckReport compare(Checker& checker, const CheckInputs& inputs, const Options& options) {
  if (!names_side(options.against)) {
    return checker.compare(options.against, inputs, options.tolerance);
  }
  return checker.compare(other_side(options.side, options.against), inputs, options.tolerance);
}

/// Throws if the report or the recording would replace a file that the command reads.
void require_new_outputs(const Options& options) {
  std::vector<std::string> read{options.model, options.input, options.targets, options.features,
                                options.against};
  // A checkpoint folder, or that of a run.
  for (const char* folder : {"", "best", "last"}) {
    read.push_back(std::filesystem::path(options.model) / folder / "model.safetensors");
  }
  for (const std::string& file : read) require_other_than(file, {options.output, options.record});
  require_outputs({options.output, options.record});
}

/// Exit code: 1 is an error, 3 a lost GPU.
constexpr int kDiffers = 4;

void run(const Options& options) {
  require_new_outputs(options);
  Checker checker = Checker::load(options.model, options.side, options.segmenters);
  const CheckInputs inputs =
      read_check_inputs(checker.kind(), options.input, options.targets, options.features);
  if (!options.record.empty()) checker.record(options.record, inputs);
  if (options.against.empty()) return;
  const CheckReport report = compare(checker, inputs, options);
  write_output(options.output, options.format == "json" ? to_json(report) : to_text(report));
  if (!report.agrees()) throw Exit{kDiffers};
}

}  // namespace

void add_check(CLI::App& program) {
  const auto options = std::make_shared<Options>();
  CLI::App* command = program.add_subcommand(
      "check", "Compare two implementations, devices or precisions, layer by layer");
  add_model_argument(*command, options->model)->required();
  command
      ->add_option("input", options->input,
                   "Input of the model, as its own command reads it: texts, one per line; "
                   "CoNLL sentences; a .npy or .npz file or a folder of features")
      ->required();
  command->add_option("target", options->targets,
                      "For seq2seq: targets to feed to the decoder, line by line (default: the "
                      "second column of the input, or the model's greedy answers)");
  command
      ->add_option(
          "--against", options->against,
          "The reference: the same model with precision=P, device=D or implementation=I (or "
          "several, with commas), or a safetensors file with the outputs of its layers")
      ->check(CLI::Validator(refuse_side, ""));
  command->add_option("--record", options->record,
                      "Write the outputs of all layers to this safetensors file");
  command
      ->add_option("--tolerance", options->tolerance,
                   "The allowed difference of two numbers, as a share of their own size and their "
                   "layer's; 0: as much as the precisions of both sides explain")
      ->capture_default_str();
  command->add_option("-o,--output", options->output,
                      "File for the report (default: standard output)");
  command
      ->add_option("--format", options->format,
                   "text: a table and a sentence; json: one object with all numbers")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  add_placement_options(*command, options->side.placement);
  command
      ->add_option(
          "--implementation", options->side.implementation,
          "Implementation of recurrent layers on this side: auto, or a name that sluice info "
          "prints")
      ->capture_default_str();
  add_segmenter_options(*command, options->segmenters, true, true);
  command->add_option(
      "--features", options->features,
      "For a language model trained with data.features: one vector per text, a .npy "
      "or .npz file or a folder");
  command->footer(
      "Runs the model twice on the same input and compares the outputs of each layer, with the\n"
      "final states, from the last layer to the first. Steps, rows (inputs) and units count from\n"
      "0. Padding is not compared. A number that is not finite on one side alone differs.\n\n"
      "Two numbers agree if |a - b| <= tolerance * (|b| + rms), where b is the reference's and\n"
      "rms the root mean square of its layer. Exit code: 0 if all layers agree, 4 if one differs.\n"
      "\n"
      "  sluice check runs/reviews/best test.txt --against implementation=portable\n"
      "  sluice check runs/reviews/best test.txt --against device=cuda,precision=bfloat16\n"
      "  sluice check runs/de/best pairs.tsv --against precision=int8 --format json\n"
      "  sluice check runs/phones/best dev.npz --record before.safetensors\n"
      "  sluice check runs/phones/best dev.npz --against before.safetensors --tolerance 1e-4");
  command->callback([options] {
    if (options->against.empty() && options->record.empty()) {
      throw CLI::RequiredError("--against, or --record,");
    }
    run(*options);
  });
}

}  // namespace sluice::app
