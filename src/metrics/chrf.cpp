#include "metrics/chrf.h"

#include <fmt/format.h>

#include "base/check.h"
#include "metrics/words.h"

namespace sluice::metrics {
namespace {

bool is_punctuation(char byte) {
  constexpr std::string_view kMarks = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";
  return kMarks.find(byte) != std::string_view::npos;
}

/// Words with one mark at the end, or else at the beginning, apart.
std::vector<std::string> words_and_marks(std::string_view text) {
  std::vector<std::string> tokens;
  for (const std::string& word : split_words(text)) {
    std::size_t cut = 0;
    if (is_punctuation(word.back())) {
      cut = word.size() - 1;
    } else if (is_punctuation(word.front())) {
      cut = 1;
    }
    if (cut > 0) tokens.push_back(word.substr(0, cut));
    tokens.push_back(word.substr(cut));
  }
  return tokens;
}

template <typename Symbol>
NgramCounts count_of_line(const std::vector<Symbol>& hypothesis,
                          const std::vector<Symbol>& reference, std::size_t n) {
  NgramCounts counts = count_ngrams(hypothesis, reference, n);
  if (counts.reference == 0) counts.hypothesis = 0;
  return counts;
}

}  // namespace

Chrf::Chrf(const ChrfOptions& options)
    : options_(options), counts_(options.character_order + options.word_order) {
  SLUICE_CHECK(options.character_order >= 1, "chrF needs a character order of at least 1");
  SLUICE_CHECK(options.beta >= 0, "chrF's beta is {}; it must not be negative", options.beta);
}

void Chrf::add(std::string_view hypothesis, std::string_view reference) {
  const auto our_characters = characters_of(hypothesis);
  const auto their_characters = characters_of(reference);
  for (std::size_t n = 1; n <= options_.character_order; ++n) {
    counts_[n - 1] += count_of_line(our_characters, their_characters, n);
  }
  if (options_.word_order == 0) return;
  const auto our_words = words_and_marks(hypothesis);
  const auto their_words = words_and_marks(reference);
  for (std::size_t n = 1; n <= options_.word_order; ++n) {
    counts_[options_.character_order + n - 1] += count_of_line(our_words, their_words, n);
  }
}

double Chrf::score() const {
  double precision = 0;
  double recall = 0;
  double orders = 0;
  for (const NgramCounts& counts : counts_) {
    if (counts.hypothesis == 0 || counts.reference == 0) continue;
    const auto shared = static_cast<double>(counts.shared);
    precision += shared / static_cast<double>(counts.hypothesis);
    recall += shared / static_cast<double>(counts.reference);
    ++orders;
  }
  if (precision + recall == 0) return 0;
  precision /= orders;
  recall /= orders;
  const double weight = options_.beta * options_.beta;
  return 100 * (1 + weight) * precision * recall / (weight * precision + recall);
}

std::string Chrf::signature() const {
  return fmt::format("nrefs:1|case:mixed|eff:yes|nc:{}|nw:{}|space:no", options_.character_order,
                     options_.word_order);
}

}  // namespace sluice::metrics
