#include <cstdio>
#include <memory>
#include <optional>

#include "commands.h"
#include "own_command.h"
#include "profile_options.h"
#include "sluice/text.h"
#include "sluice/train.h"
#include "stop_signals.h"

namespace sluice::app {
namespace {

// As the configuration lists patterns.
std::string joined(const std::vector<std::string>& patterns) {
  std::string list;
  for (const std::string& pattern : patterns) list += (list.empty() ? "" : ",") + pattern;
  return list;
}

void run(TrainRequest request) {
  StopSignals signals;
  request.command = own_command();
  request.stop = &signals.requested();
  request.preparing = [&signals](bool now) { signals.end_at_once(now); };
  const TrainReport report = train(request);
  if (report.rank > 0) return;
  std::printf("%s after step %lld (%s), %.1f s", report.stopped ? "stopped" : "finished",
              static_cast<long long>(report.steps), counted(report.epochs, "whole epoch").c_str(),
              report.seconds);
  if (!report.best_metric_name.empty()) {
    std::printf("; best %s %s, after step %lld", report.best_metric_name.c_str(),
                report.best_metric_text.c_str(), static_cast<long long>(report.best_step));
  } else if (report.stopped) {
    std::printf("; not validated yet, so there is last/ and no best/");
  } else {
    std::printf(
        "; not validated, so there is last/ and no best/ (to validate, set data.hold_out_run=1 and "
        "data.hold_out_every=10)");
  }
  std::printf("\n");
}

void run_folds(TrainRequest request, std::int64_t folds) {
  StopSignals signals;
  request.stop = &signals.requested();
  request.preparing = [&signals](bool now) { signals.end_at_once(now); };
  const FoldsReport report = train_folds(request, folds);
  if (report.stopped) {
    std::printf("stopped in fold %zu of %lld after step %lld, %.1f s\n", report.folds.size(),
                static_cast<long long>(folds), static_cast<long long>(report.folds.back().steps),
                report.seconds);
    return;
  }
  std::printf("%sfinished %lld folds, %.1f s\n", report.table.c_str(),
              static_cast<long long>(folds), report.seconds);
}

}  // namespace

void add_train(CLI::App& program) {
  struct Options {
    TrainRequest request;
    std::string init_from;
    std::vector<std::string> only;
    std::optional<std::int64_t> folds;
    std::string devices;
    bool autotune = false;
    bool example = false;
    bool fresh = false;
  };
  const auto options = std::make_shared<Options>();
  CLI::App* command = program.add_subcommand("train", "Train a model from a TOML file");
  command->add_option("config", options->request.config_path,
                      "Configuration (TOML); see --example for every key");
  command
      ->add_option("--set", options->request.overrides,
                   "section.key=value, replaces the file's value; may be repeated")
      ->allow_extra_args(false);
  command->add_option("--init-from", options->init_from,
                      "Checkpoint whose parameters a fresh run starts from (training.init_from)");
  command
      ->add_option("--only", options->only,
                   "Take only parameters with this name, a pattern with * and ? such as "
                   "'encoder.*'; may be repeated (training.init_only)")
      ->check([](const std::string& pattern) {
        return std::string(pattern.empty() ? "the pattern is empty" : "");
      })
      ->allow_extra_args(false);
  command->add_option("--folds", options->folds,
                      "Cross-validation: train this many models, each with another part of the "
                      "examples held out for validation");
  command->add_option(
      "--devices", options->devices,
      "Train on these devices together, such as cuda:0,cuda:1, cuda:all or cpu,cpu: "
      "each is a rank with its share of every batch (machine.devices)");
  command->add_flag("--autotune", options->autotune,
                    "Measure the implementations of recurrent layers instead of choosing by rule, "
                    "and remember the result (machine.autotune)");
  command->add_flag("--fresh", options->fresh,
                    "Refuse to resume an earlier run in the output folder (default: resume)");
  command->add_flag("--quiet", options->request.quiet, "No progress on standard error");
  command->add_flag("--example", options->example,
                    "Print a configuration with every key explained, and stop");
  add_profile_options(
      *command, options->request.profile,
      "steps as the progress output counts them (default: the 11th to 15th of this run)");
  command->footer(
      "The output folder gets last/ (to resume from), best/ (to use) and tensorboard/.\n"
      "Ctrl-C, SIGTERM and SIGUSR1 save and stop. While data are being prepared, they stop at\n"
      "once. The same command resumes, and ends with the same weights, to the bit, as a run that\n"
      "never stopped.\n\n"
      "With --folds, each fold has such a folder: fold-1/ and so on. At the end, the command "
      "prints\n"
      "a table and writes it to folds.json: each fold's best validation, their mean and standard\n"
      "deviation.\n\n"
      "  sluice train --example > task.toml\n"
      "  sluice train task.toml --set training.learning_rate=0.002 --set output.directory=runs/a\n"
      "  sluice train task.toml --init-from runs/a/best --only 'encoder.*' --only 'source_*'\n"
      "  sluice train task.toml --folds 5 --set data.hold_out_run=10 --set "
      "output.directory=runs/cv\n"
      "  sluice train task.toml --devices cuda:all\n"
      "  sluice train task.toml --breakdown --trace run.json --trace-steps 100:104");
  command->callback([options] {
    if (options->example) {
      std::fputs(config_reference().c_str(), stdout);
      return;
    }
    if (options->request.config_path.empty() && options->request.overrides.empty()) {
      throw CLI::RequiredError("CONFIG (sluice train --example prints one)");
    }
    if (!options->init_from.empty()) {
      options->request.overrides.push_back("training.init_from=" + options->init_from);
    }
    if (!options->only.empty()) {
      options->request.overrides.push_back("training.init_only=" + joined(options->only));
    }
    if (!options->devices.empty()) {
      options->request.overrides.push_back("machine.devices=" + options->devices);
    }
    if (options->autotune) options->request.overrides.push_back("machine.autotune=true");
    options->request.resume = !options->fresh;
    if (options->folds) {
      run_folds(options->request, *options->folds);
    } else {
      run(options->request);
    }
  });
}

}  // namespace sluice::app
