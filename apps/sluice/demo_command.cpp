#include <iostream>
#include <memory>

#include "commands.h"
#include "sluice/demo.h"
#include "sluice/error.h"

namespace sluice::app {

namespace {

// What the task allows easily; less means that something is broken.
constexpr double kPassMark = 0.98;

}  // namespace

void add_demo(CLI::App& program) {
  const auto request = std::make_shared<DemoRequest>();
  CLI::App* command = program.add_subcommand(
      "demo", "Train a small model on generated dates, and show its answers");
  command
      ->add_option("--directory", request->directory,
                   "Folder for the checkpoint; replaced if it exists")
      ->capture_default_str();
  command->add_option("--seed", request->seed, "Seed of data, weights and dropout")
      ->capture_default_str();
  command->add_flag("--quiet", request->quiet, "No progress on standard error");
  command->footer(
      "  sluice demo --directory runs/demo\n"
      "  sluice chat runs/demo/best              # afterwards: talk to the model");
  command->callback([request] {
    if (run_demo(*request, std::cout).exact_match >= kPassMark) return;
    throw Error(ErrorCode::kNumeric,
                "the demonstration reached less than 98 % exact match; please report it with the "
                "output above");
  });
}

}  // namespace sluice::app
