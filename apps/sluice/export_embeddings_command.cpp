#include <cstdio>
#include <memory>

#include "commands.h"
#include "output.h"
#include "placement_options.h"
#include "sluice/embeddings.h"
#include "sluice/text.h"

namespace sluice::app {

void add_export_embeddings(CLI::App& program) {
  struct Options {
    std::string model;
    std::string directory;
  };
  const auto options = std::make_shared<Options>();
  CLI::App* command = program.add_subcommand(
      "export-embeddings", "Write a model's embeddings for TensorBoard's projector");
  add_model_argument(*command, options->model)->required();
  add_output_option(*command, options->directory, "directory",
                    "Folder to write into, made if missing");
  command->footer(
      "Writes two .tsv files per vocabulary, vectors and tokens with one token per line, and\n"
      "projector_config.pbtxt. In a run's tensorboard/ folder, TensorBoard shows them under\n"
      "Projector next to the curves.\n\n"
      "  sluice export-embeddings runs/model/best -o runs/model/tensorboard\n"
      "  tensorboard --logdir runs/model/tensorboard");
  command->callback([options] {
    if (options->directory.empty()) throw CLI::RequiredError("--output");
    for (const auto& written : export_embeddings(options->model, options->directory)) {
      std::printf("%s: %s of %s\n", written.parameter.c_str(),
                  counted(static_cast<std::int64_t>(written.tokens), "token").c_str(),
                  counted(static_cast<std::int64_t>(written.width), "number").c_str());
    }
  });
}

}  // namespace sluice::app
