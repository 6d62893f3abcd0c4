#include <cstdio>
#include <memory>

#include "commands.h"
#include "sluice/evaluate.h"
#include "sluice/text.h"

namespace sluice::app {
namespace {

struct Options {
  std::string hypotheses;
  std::string references;
  std::string tokenizer = "13a";
  int digits = 2;
};

void run(const Options& options) {
  const TextScores scores =
      evaluate(read_pairs(options.hypotheses, options.references), options.tokenizer);
  const int digits = options.digits;
  const auto& precisions = scores.precisions;
  std::printf("BLEU %.*f  %s\n", digits, scores.bleu, scores.bleu_signature.c_str());
  std::printf("  precisions %.1f/%.1f/%.1f/%.1f, brevity penalty %.3f, %lld tokens of %lld\n",
              precisions[0], precisions[1], precisions[2], precisions[3], scores.brevity_penalty,
              static_cast<long long>(scores.hypothesis_tokens),
              static_cast<long long>(scores.reference_tokens));
  std::printf("chrF2 %.*f  %s\n", digits, scores.chrf, scores.chrf_signature.c_str());
  std::printf("chrF2++ %.*f  %s\n", digits, scores.chrf_plus_plus,
              scores.chrf_plus_plus_signature.c_str());
  std::printf("exact match %.*f%%  %lld of %s\n", digits,
              100 * static_cast<double>(scores.exact) / static_cast<double>(scores.lines),
              static_cast<long long>(scores.exact), counted(scores.lines, "line").c_str());
}

}  // namespace

void add_evaluate(CLI::App& program) {
  const auto options = std::make_shared<Options>();
  CLI::App* command = program.add_subcommand(
      "evaluate", "BLEU, chrF and exact match of answers against references");
  command
      ->add_option("hypotheses", options->hypotheses,
                   "The answers of a model, one per line; - is standard input")
      ->required();
  command
      ->add_option("references", options->references, "The references; line i belongs to answer i")
      ->required();
  command
      ->add_option("--tokenizer", options->tokenizer,
                   "The units of BLEU: 13a (words, punctuation separate), zh (single Chinese "
                   "characters), char, or none (split at white space)")
      ->capture_default_str();
  command->add_option("--digits", options->digits, "Digits after the point")
      ->check(CLI::Range(0, 15))
      ->capture_default_str();
  command->footer(
      "All metrics cover all lines and range from 0 to 100; higher is better. BLEU is the share "
      "of\n"
      "word n-grams that the reference contains too. chrF is the F-score of character n-grams;\n"
      "chrF++ also counts words and word pairs. The numbers equal those of the sacrebleu package;\n"
      "the signatures next to them say how they were computed. Give it text as people write it,\n"
      "not tokens. Files are plain or gzip.\n\n"
      "  sluice decode runs/de/best test.en -o test.out\n"
      "  sluice evaluate test.out test.de\n"
      "  sluice decode runs/zh/best in.txt | sluice evaluate - right.txt --tokenizer zh");
  command->callback([options] { run(*options); });
}

}  // namespace sluice::app
