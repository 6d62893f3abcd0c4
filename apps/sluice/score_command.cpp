#include <cmath>
#include <cstdio>
#include <memory>

#include "commands.h"
#include "placement_options.h"
#include "sluice/error.h"
#include "sluice/sequence_model.h"
#include "sluice/text.h"

namespace sluice::app {
namespace {

struct Options {
  std::string model;
  Placement placement;
  std::string source;
  std::string target;
  bool quiet = false;
};

void run(const Options& options) {
  SequenceModel model = SequenceModel::load(options.model, options.placement);
  const std::vector<Scored> scores = model.score(read_pairs(options.source, options.target));
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
                   "Sources, one a line; or lines source TAB target if no target file is given")
      ->required();
  command->add_option("target", options->target, "Targets, line by line");
  add_placement_options(*command, options->placement);
  command->add_flag("--quiet", options->quiet, "Only the summary");
  command->footer(
      "Prints `log p TAB tokens` for each pair (natural logarithm, end mark counted),\n"
      "then a line with the perplexity of all.\n\n"
      "  sluice score runs/de/best pairs.tsv\n"
      "  sluice score runs/de/best test.en test.de --quiet");
  command->callback([options] { run(*options); });
}

}  // namespace sluice::app
