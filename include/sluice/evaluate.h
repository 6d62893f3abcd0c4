#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

namespace sluice {

/// How close hypotheses are to their references. BLEU and chrF are those of the sacrebleu package
/// with one reference a line; the signatures say what they depend on, as it writes them.
struct TextScores {
  std::int64_t lines = 0;
  std::int64_t exact = 0;  ///< hypotheses that are their reference, byte for byte

  double bleu = 0;                     ///< 0 to 100, over all lines
  std::array<double, 4> precisions{};  ///< of 1- to 4-grams, smoothed, 0 to 100
  double brevity_penalty = 0;          ///< 0 to 1: below 1 where hypotheses are shorter
  std::int64_t hypothesis_tokens = 0;  ///< as BLEU's tokenizer counts them
  std::int64_t reference_tokens = 0;
  std::string bleu_signature;

  double chrf = 0;  ///< 0 to 100, over all lines
  std::string chrf_signature;
  double chrf_plus_plus = 0;  ///< with words and their pairs beside characters
  std::string chrf_plus_plus_signature;
};

/// Scores {hypothesis, reference} pairs. `bleu_tokenizer` is "13a" (punctuation apart), "zh"
/// (Chinese characters one by one), "char" or "none" (what stands between white space). Throws
/// ErrorCode::kInvalidArgument for another, kFormat for text that is not UTF-8.
TextScores evaluate(std::span<const std::pair<std::string, std::string>> pairs,
                    const std::string& bleu_tokenizer = "13a");

}  // namespace sluice
