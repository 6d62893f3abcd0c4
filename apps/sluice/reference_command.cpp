#include <cstdio>

#include "command_page.h"
#include "commands.h"
#include "sluice/train.h"

namespace sluice::app {

void add_reference(CLI::App& program) {
  CLI::App* reference = program.add_subcommand(
      "reference", "Print what the documentation says of all keys or commands, as Markdown");
  reference->require_subcommand(1);
  reference->footer("  sluice reference config");
  CLI::App* config =
      reference->add_subcommand("config", "Every configuration key: type, default, allowed values");
  config->footer("  sluice reference config > docs/reference/config.md");
  config->callback([] { std::fputs(config_page().c_str(), stdout); });
  CLI::App* commands = reference->add_subcommand("commands", "Every command and its options");
  commands->footer("  sluice reference commands > docs/reference/commands.md");
  commands->callback([&program] { std::fputs(command_page(program).c_str(), stdout); });
}

}  // namespace sluice::app
