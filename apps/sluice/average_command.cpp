#include <cstdio>
#include <memory>

#include "commands.h"
#include "sluice/average.h"

namespace sluice::app {

void add_average(CLI::App& program) {
  struct Options {
    std::string output;
    std::vector<std::string> checkpoints;
  };
  const auto options = std::make_shared<Options>();
  CLI::App* command =
      program.add_subcommand("average", "Average the weights of checkpoints of one architecture");
  command->add_option("output", options->output, "Checkpoint folder to make")->required();
  command
      ->add_option("checkpoints", options->checkpoints,
                   "Two or more checkpoint folders or model.safetensors")
      ->required()
      ->expected(2, -1);
  command->footer(
      "They must share architecture and vocabularies; runs that differ in training.seed do if\n"
      "the tokenizers come out the same, as words and characters do.\n\n"
      "  sluice average runs/de/average runs/de/best runs/de/last\n"
      "  sluice average runs/mean runs/a/best runs/b/best runs/c/best");
  command->callback([options] {
    average_checkpoints(options->output, options->checkpoints);
    std::printf("%s holds the average of %zu checkpoints\n", options->output.c_str(),
                options->checkpoints.size());
  });
}

}  // namespace sluice::app
