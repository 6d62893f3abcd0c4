#include "metrics/bleu.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace sluice::metrics {
namespace {

double brevity_penalty(std::int64_t hypothesis, std::int64_t reference) {
  if (hypothesis >= reference) return 1;
  if (hypothesis == 0) return 0;
  return std::exp(1 - static_cast<double>(reference) / static_cast<double>(hypothesis));
}

}  // namespace

void Bleu::add(std::string_view hypothesis, std::string_view reference) {
  const auto ours = bleu_tokens(hypothesis, tokenizer_);
  const auto theirs = bleu_tokens(reference, tokenizer_);
  for (std::size_t n = 1; n <= kBleuOrder; ++n) counts_[n - 1] += count_ngrams(ours, theirs, n);
}

BleuScore Bleu::score() const {
  BleuScore result;
  result.hypothesis_tokens = counts_[0].hypothesis;
  result.reference_tokens = counts_[0].reference;
  result.brevity_penalty = brevity_penalty(result.hypothesis_tokens, result.reference_tokens);
  if (counts_[0].shared == 0) return result;
  double log_sum = 0;
  double smoothed = 1;
  for (std::size_t n = 0; n < kBleuOrder; ++n) {
    // Without hypotheses of n tokens the precision is 0/0, and taken for 0.
    if (counts_[n].hypothesis == 0) return result;
    double shared = static_cast<double>(counts_[n].shared);
    if (shared == 0) shared = smoothed /= 2;
    result.precisions[n] = 100 * shared / static_cast<double>(counts_[n].hypothesis);
    log_sum += std::log(result.precisions[n]);
  }
  result.score = result.brevity_penalty * std::exp(log_sum / static_cast<double>(kBleuOrder));
  return result;
}

std::string Bleu::signature() const {
  return fmt::format("nrefs:1|case:mixed|eff:no|tok:{}|smooth:exp", name_of(tokenizer_));
}

}  // namespace sluice::metrics
