#include <cstdio>
#include <filesystem>
#include <memory>

#include "commands.h"
#include "sluice/report.h"
#include "sluice/text.h"

namespace sluice::app {

void add_report(CLI::App& program) {
  struct Options {
    std::string directory;
    std::string html;
    bool trust_segmenter = false;
  };
  const auto options = std::make_shared<Options>();
  CLI::App* command =
      program.add_subcommand("report", "Show a training run as a page with curves and answers");
  command->add_option("directory", options->directory, "Output folder of the run")->required();
  command->add_option("--html", options->html,
                      "File to write (default: report.html in the folder)");
  command->add_flag("--trust-segmenter", options->trust_segmenter,
                    "Run the command that the checkpoint names to segment text");
  command->footer(
      "The page is self-contained: curves from the run's tensorboard/, answers of its best model "
      "to\n"
      "validation examples, a summary of the data, and all settings. Call it from the folder "
      "where\n"
      "training was started, so that it finds the files of examples.\n\n"
      "  sluice report runs/model\n"
      "  sluice report runs/cv/fold-1 --html fold-1.html");
  command->callback([options] {
    const std::string file =
        options->html.empty() ? (std::filesystem::path(options->directory) / "report.html").string()
                              : options->html;
    if (!options->html.empty()) require_writable(file);
    write_text(file, training_report(options->directory, options->trust_segmenter));
    std::printf("wrote %s\n", file.c_str());
  });
}

}  // namespace sluice::app
