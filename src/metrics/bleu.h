#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "metrics/bleu_tokens.h"
#include "metrics/ngrams.h"

namespace sluice::metrics {

/// The longest n-grams that BLEU counts.
inline constexpr std::size_t kBleuOrder = 4;

struct BleuScore {
  double score = 0;                             ///< 0 to 100
  std::array<double, kBleuOrder> precisions{};  ///< of 1- to 4-grams, smoothed, 0 to 100
  double brevity_penalty = 0;                   ///< 0 to 1
  std::int64_t hypothesis_tokens = 0;
  std::int64_t reference_tokens = 0;
};

/// Corpus BLEU of Papineni et al. 2002 ("BLEU: a Method for Automatic Evaluation of Machine
/// Translation") with one reference a line, as the sacrebleu package computes it by default
/// (Post 2018, "A Call for Clarity in Reporting BLEU Scores"): the geometric mean of the precisions
/// of 1- to 4-grams over all lines, times exp(1 - reference length / hypothesis length) where
/// hypotheses are shorter. The k-th precision without a match counts as half of one, a quarter, …
/// (Chen & Cherry 2014, method 3), unless no n-gram of any order matches. Case counts.
class Bleu {
 public:
  explicit Bleu(BleuTokenizer tokenizer = BleuTokenizer::k13a) : tokenizer_(tokenizer) {}

  /// One line of each. Throws ErrorCode::kFormat for what is not valid UTF-8.
  void add(std::string_view hypothesis, std::string_view reference);

  /// Of all lines added; 0 if there are none.
  BleuScore score() const;

  /// What the number depends on, as sacrebleu writes it: "nrefs:1|case:mixed|…".
  std::string signature() const;

 private:
  BleuTokenizer tokenizer_;
  std::array<NgramCounts, kBleuOrder> counts_{};
};

}  // namespace sluice::metrics
