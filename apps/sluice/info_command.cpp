#include <cstdio>
#include <memory>

#include "commands.h"
#include "machine_report.h"
#include "placement_options.h"
#include "sluice/model_info.h"

namespace sluice::app {
namespace {

struct Options {
  std::string model;
  Placement placement;
  bool explain = false;
  bool machine = false;
};

void describe_model(const Options& options) {
  const ModelInfo info = describe_model(options.model, options.placement);
  std::printf("%s\n", info.path.c_str());
  std::printf("kind              %s\n", info.kind.c_str());
  std::printf("configuration     %s\n", info.configuration.c_str());
  std::printf("parameters        %lld\n", static_cast<long long>(info.parameters));
  std::printf("matrices stored   %s\n", info.stored.c_str());
  for (const auto& [name, size] : info.vocabularies) {
    std::printf("%-17s %s\n", name.c_str(), size.c_str());
  }
  for (const auto& [name, shape] : info.tensors) {
    std::printf("  %-44s %s\n", name.c_str(), shape.c_str());
  }
  if (options.explain) std::printf("%s", info.explanation.c_str());
}

void run(const Options& options) {
  if (!options.machine && options.model.empty()) {
    throw CLI::RequiredError("MODEL or --machine");
  }
  if (options.machine) std::printf("%s", machine_report(describe_machine()).c_str());
  if (!options.model.empty()) describe_model(options);
}

}  // namespace

void add_info(CLI::App& program) {
  const auto options = std::make_shared<Options>();
  CLI::App* command =
      program.add_subcommand("info", "Show what a checkpoint holds, or what this machine has");
  add_model_argument(*command, options->model, "; not needed with --machine");
  command->add_flag("--machine", options->machine,
                    "Show processor, GPUs, driver and NVIDIA's libraries, and what is missing");
  add_placement_options(*command, options->placement);
  command->add_flag("--explain", options->explain,
                    "Show which implementation would run each part here, and why others decline");
  command->footer(
      "  sluice info runs/demo/best\n"
      "  sluice info runs/demo/best/model.safetensors --explain\n"
      "  sluice info --machine");
  command->callback([options] { run(*options); });
}

}  // namespace sluice::app
