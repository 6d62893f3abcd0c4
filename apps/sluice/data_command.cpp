#include <memory>

#include "commands.h"
#include "sluice/data.h"

namespace sluice::app {

void add_data(CLI::App& program) {
  struct Options {
    TrainRequest request;
    std::string directory;
  };
  const auto options = std::make_shared<Options>();
  CLI::App* data = program.add_subcommand("data", "Look at what training sees of its data");
  data->require_subcommand(1);
  data->footer("  sluice data ids --help");
  CLI::App* ids = data->add_subcommand("ids", "Write the examples as token ids");
  ids->add_option("config", options->request.config_path, "Configuration (TOML), as for train")
      ->required();
  ids->add_option("--set", options->request.overrides,
                  "section.key=value, over the file's value; may be repeated");
  ids->add_option("-o,--output", options->directory, "Folder for train.ids and valid.ids")
      ->required();
  ids->footer(
      "Files hold a line `# vocabulary SOURCE TARGET`, then `source ids TAB target ids` a line.\n\n"
      "  sluice data ids examples/zh_chat.toml -o runs/zh_chat.ids");
  ids->callback([options] { export_ids(options->request, options->directory); });
}

}  // namespace sluice::app
