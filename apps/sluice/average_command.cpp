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
  command
      ->add_option("checkpoints", options->checkpoints,
                   "Two or more checkpoint folders or model.safetensors; without -o the folder to "
                   "make comes first")
      ->required();
  command->add_option("-o,--output", options->output, "Checkpoint folder to make");
  command->footer(
      "They must share architecture and vocabularies. Runs that differ in training.seed qualify "
      "if\n"
      "their tokenizers are equal, as those of words and characters are.\n\n"
      "  sluice average runs/de/best runs/de/last -o runs/de/average\n"
      "  sluice average runs/a/best runs/b/best runs/c/best -o runs/mean");
  command->callback([options] {
    std::vector<std::string> checkpoints = options->checkpoints;
    std::string output = options->output;
    if (output.empty() && checkpoints.size() > 2) {
      output = checkpoints.front();
      checkpoints.erase(checkpoints.begin());
    }
    if (output.empty()) throw CLI::RequiredError("--output, the checkpoint folder to make,");
    average_checkpoints(checkpoints, output);
    std::printf("%s holds the average of %zu checkpoints\n", output.c_str(), checkpoints.size());
  });
}

}  // namespace sluice::app
