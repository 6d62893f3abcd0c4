#include <iostream>
#include <memory>

#include "commands.h"
#include "sluice/demo.h"

namespace sluice::app {

void add_demo(CLI::App& program) {
  const auto request = std::make_shared<DemoRequest>();
  CLI::App* command = program.add_subcommand(
      "demo", "Train a small model on dates the program makes itself, and see it answer");
  command->add_option("--directory", request->directory, "Where the checkpoint goes; made anew")
      ->capture_default_str();
  command->add_option("--seed", request->seed, "Of data, weights and dropout")
      ->capture_default_str();
  command->add_flag("--quiet", request->quiet, "No progress on standard error");
  command->footer(
      "  sluice demo --directory runs/demo\n"
      "  sluice chat runs/demo/best              afterwards");
  command->callback([request] { run_demo(*request, std::cout); });
}

}  // namespace sluice::app
