#include <cmath>
#include <cstdio>
#include <memory>

#include "commands.h"
#include "sluice/error.h"
#include "sluice/sequence_model.h"
#include "text_lines.h"

namespace sluice::app {
namespace {

struct Options {
  std::string model;
  std::string device = "cpu";
  std::string source;
  std::string target;
  bool quiet = false;
};

std::vector<std::pair<std::string, std::string>> read_pairs(const Options& options) {
  const std::vector<std::string> sources = read_lines(options.source);
  std::vector<std::pair<std::string, std::string>> pairs;
  if (options.target.empty()) {
    for (std::size_t i = 0; i < sources.size(); ++i) {
      const std::size_t tab = sources[i].find('\t');
      if (tab == std::string::npos || sources[i].find('\t', tab + 1) != std::string::npos) {
        throw Error(ErrorCode::kFormat, options.source + ":" + std::to_string(i + 1) +
                                            ": expected source TAB target, two columns");
      }
      pairs.emplace_back(sources[i].substr(0, tab), sources[i].substr(tab + 1));
    }
    return pairs;
  }
  const std::vector<std::string> targets = read_lines(options.target);
  if (sources.size() != targets.size()) {
    throw Error(ErrorCode::kFormat, options.source + " has " + std::to_string(sources.size()) +
                                        " lines but " + options.target + " has " +
                                        std::to_string(targets.size()) + "; they must match");
  }
  for (std::size_t i = 0; i < sources.size(); ++i) pairs.emplace_back(sources[i], targets[i]);
  return pairs;
}

void run(const Options& options) {
  SequenceModel model = SequenceModel::load(options.model, options.device);
  const std::vector<Scored> scores = model.score(read_pairs(options));
  double total = 0;
  std::int64_t tokens = 0;
  for (const Scored& score : scores) {
    if (!options.quiet) {
      std::printf("%.6f\t%lld\n", score.log_probability, static_cast<long long>(score.tokens));
    }
    total += score.log_probability;
    tokens += score.tokens;
  }
  if (tokens == 0) throw Error(ErrorCode::kInvalidArgument, "there is nothing to score");
  std::printf("# %zu pairs, %lld tokens, perplexity %.5g\n", scores.size(),
              static_cast<long long>(tokens), std::exp(-total / static_cast<double>(tokens)));
}

}  // namespace

void add_score(CLI::App& program) {
  const auto options = std::make_shared<Options>();
  CLI::App* command =
      program.add_subcommand("score", "Log-probability of given targets, and perplexity");
  command->add_option("model", options->model, "Checkpoint folder or model.safetensors")
      ->required();
  command
      ->add_option("source", options->source,
                   "Sources, one a line; or source TAB target if no target file is given")
      ->required();
  command->add_option("target", options->target, "Targets, line by line");
  command->add_option("--device", options->device, "Where to run")->capture_default_str();
  command->add_flag("--quiet", options->quiet, "Only the summary");
  command->footer(
      "Prints `log p TAB tokens` for each pair (natural logarithm, end mark counted),\n"
      "then a line with the perplexity of all.");
  command->callback([options] { run(*options); });
}

}  // namespace sluice::app
