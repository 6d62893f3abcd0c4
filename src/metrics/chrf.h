#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "metrics/ngrams.h"

namespace sluice::metrics {

struct ChrfOptions {
  std::size_t character_order = 6;  ///< longest n-grams of characters
  std::size_t word_order = 0;       ///< longest n-grams of words; 2 is chrF++
  double beta = 2;                  ///< how many times as much recall counts as precision
};

/// Corpus chrF of Popović 2015 ("chrF: character n-gram F-score for automatic MT evaluation") and,
/// with words, chrF++ (2017), with one reference a line, as the sacrebleu package computes them:
/// precision and recall of n-grams over all lines, each averaged over the orders that both sides
/// have, then their F-score. White space doesn't count as a character; words are split from one
/// punctuation mark at their end, or else at their beginning. A line's n-grams count against its
/// precision only where its reference has n-grams of that order. Case counts.
class Chrf {
 public:
  /// Throws ErrorCode::kInvalidArgument for a character order of 0 or a negative beta.
  explicit Chrf(const ChrfOptions& options = {});

  /// One line of each. Throws ErrorCode::kFormat for what is not valid UTF-8.
  void add(std::string_view hypothesis, std::string_view reference);

  /// Of all lines added, 0 to 100; 0 if there are none.
  double score() const;

  /// What the number depends on, as sacrebleu writes it: "nrefs:1|case:mixed|…".
  std::string signature() const;

 private:
  ChrfOptions options_;
  std::vector<NgramCounts> counts_;  // of characters by order, then of words
};

}  // namespace sluice::metrics
