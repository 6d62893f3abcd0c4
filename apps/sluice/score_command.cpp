#include <cmath>
#include <cstdio>
#include <memory>

#include "commands.h"
#include "placement_options.h"
#include "segmenter_options.h"
#include "sluice/error.h"
#include "sluice/language_model.h"
#include "sluice/sequence_model.h"
#include "sluice/text.h"

namespace sluice::app {
namespace {

struct Options {
  std::string model;
  Placement placement;
  SegmenterChoice segmenters;
  std::string source;
  std::string target;
  std::string features;
  bool quiet = false;
};

bool is_language_model(const Options& options) {
  return kind_of_model(options.model) == "language_model";
}

std::vector<Scored> scores_of(const Options& options, bool language_model) {
  if (!language_model) {
    if (!options.features.empty()) {
      throw Error(ErrorCode::kInvalidArgument,
                  "only texts of a language model begin from features; leave out --features");
    }
    SequenceModel model = SequenceModel::load(options.model, options.placement, options.segmenters);
    return model.score(read_pairs(options.source, options.target));
  }
  if (!options.target.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                "a language model scores the texts of one file, without targets; leave out '" +
                    options.target + "'");
  }
  LanguageModel model = LanguageModel::load(options.model, options.placement, options.segmenters);
  const FeatureVectors features =
      options.features.empty() ? FeatureVectors{} : read_feature_vectors(options.features);
  return model.score(read_lines(options.source), features);
}

void run(const Options& options) {
  const bool language_model = is_language_model(options);
  const std::vector<Scored> scores = scores_of(options, language_model);
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
  std::printf("# %s, %s, perplexity %.5g\n",
              counted(std::ssize(scores), language_model ? "text" : "pair").c_str(),
              counted(tokens, "token").c_str(), std::exp(-total / static_cast<double>(tokens)));
}

}  // namespace

void add_score(CLI::App& program) {
  const auto options = std::make_shared<Options>();
  CLI::App* command =
      program.add_subcommand("score", "Log-probability of given targets or texts, and perplexity");
  add_model_argument(*command, options->model)->required();
  command
      ->add_option("source", options->source,
                   "Sources, one per line; or lines source TAB target if no target file is given; "
                   "for a language model texts, one per line")
      ->required();
  command->add_option("target", options->target, "Targets, line by line");
  add_placement_options(*command, options->placement);
  add_segmenter_options(*command, options->segmenters, true, true);
  command->add_option(
      "--features", options->features,
      "For a language model trained with data.features: one vector per text, a .npy "
      "or .npz file or a folder");
  command->add_flag("--quiet", options->quiet, "Only the summary");
  command->footer(
      "Prints `log p TAB tokens` for each pair or text, then a line with the perplexity of all.\n"
      "Logarithms are natural. The end mark counts as a token.\n\n"
      "  sluice score runs/de/best pairs.tsv\n"
      "  sluice score runs/de/best test.en test.de --quiet\n"
      "  sluice score runs/smiles/best molecules.smi\n"
      "  sluice score runs/captions/best captions.txt --features images.npy");
  command->callback([options] { run(*options); });
}

}  // namespace sluice::app
