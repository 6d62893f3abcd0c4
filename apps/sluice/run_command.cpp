#include <memory>

#include "commands.h"
#include "output.h"
#include "placement_options.h"
#include "sluice/feature_model.h"
#include "sluice/measure.h"
#include "state_options.h"

namespace sluice::app {
namespace {

struct Options {
  std::string model;
  Placement placement;
  std::string input;
  std::string output;
  std::string targets;
  RunFileOptions run;
};

void run(const Options& options) {
  require_other_than(options.input, {options.output, options.run.states.to});
  require_two_files(options.output, options.run.states.to);
  require_outputs({options.run.states.to});
  FeatureModel model = FeatureModel::load(options.model, options.placement);
  run_file(model, options.input, options.output, options.run);
}

void score(const Options& options) {
  write_output("", to_text(measure({.model = options.model,
                                    .kind = "features",
                                    .data = options.input,
                                    .targets = options.targets,
                                    .resets = options.run.resets,
                                    .placement = options.placement})));
}

}  // namespace

void add_run(CLI::App& program) {
  const auto options = std::make_shared<Options>();
  CLI::App* command =
      program.add_subcommand("run", "Run a model on features: NumPy arrays in, NumPy arrays out");
  add_model_argument(*command, options->model)->required();
  command
      ->add_option("input", options->input,
                   "Features: a .npy file [time, features] or [sequences, time, features], a .npz "
                   "file or a folder of .npy files")
      ->required();
  CLI::Option* output = add_output_option(
      *command, options->output, "output",
      "Answers in float32: a .npy file; for the frames of several arrays, a folder with a .npy "
      "file for each");
  CLI::Option* targets =
      command->add_option("--targets", options->targets,
                          "Measure instead of writing --output: the right answers, in the form of "
                          "data.targets; prints the loss and, for classes, the accuracy");
  targets->excludes(output);
  targets->excludes(command->get_option("output"));
  command
      ->add_option(
          "--part", options->run.part,
          "Feed each sequence in parts of this many frames and carry the state from part to "
          "part; 0: whole sequences")
      ->check(
          [](const std::string& value) {
            return value.starts_with('-') ? value + " is less than 0, which stands for whole"
                                          : std::string();
          },
          "")
      ->capture_default_str();
  command->add_option("--resets", options->run.resets,
                      "Where episodes begin within the sequences: arrays of bools or of 0 and 1, "
                      "one per frame, in the form of data.resets");
  add_state_options(*command, options->run.states, "sequence");
  for (const char* other : {"--part", "--state", "--save-state"}) {
    targets->excludes(command->get_option(other));
  }
  add_placement_options(*command, options->placement);
  command->footer(
      "The model must be of model.kind = \"features\". Its answers are values or the\n"
      "probabilities of classes. A model with model.pooling = \"none\" answers each frame: arrays\n"
      "[time, outputs]. With another pooling it answers each sequence: one array\n"
      "[sequences, outputs].\n\n"
      "  sluice run runs/phones/best utterance.npy -o phones.npy\n"
      "  sluice run runs/phones/best dev/ -o phones/\n"
      "  sluice run runs/phones/best test.npz --targets test_targets.npz\n"
      "  sluice run runs/agent/best rollouts.npz -o values/ --resets dones.npz\n"
      "  sluice run runs/sensor/best day.npy -o forecast.npy --part 100\n"
      "  sluice run runs/sensor/best monday.npy -o monday_out.npy --save-state sensor.state\n"
      "  sluice run runs/sensor/best tuesday.npy -o tuesday_out.npy --state sensor.state");
  command->callback([options] {
    if (!options->targets.empty()) return score(*options);
    if (options->output.empty()) throw CLI::RequiredError("--output, or --targets,");
    run(*options);
  });
}

}  // namespace sluice::app
