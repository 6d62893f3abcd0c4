#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sluice::metrics {

/// n-grams of a hypothesis, of its reference, and how many they share: each as often as both have
/// it.
struct NgramCounts {
  std::int64_t hypothesis = 0;
  std::int64_t reference = 0;
  std::int64_t shared = 0;

  NgramCounts& operator+=(const NgramCounts& other) {
    hypothesis += other.hypothesis;
    reference += other.reference;
    shared += other.shared;
    return *this;
  }
};

/// All n-grams of a sequence in ascending order.
template <typename Symbol>
std::vector<std::span<const Symbol>> sorted_ngrams(std::span<const Symbol> sequence,
                                                   std::size_t n) {
  std::vector<std::span<const Symbol>> ngrams;
  for (std::size_t i = 0; i + n <= sequence.size(); ++i) ngrams.push_back(sequence.subspan(i, n));
  std::ranges::sort(ngrams, std::ranges::lexicographical_compare);
  return ngrams;
}

template <typename Symbol>
NgramCounts count_ngrams(const std::vector<Symbol>& hypothesis,
                         const std::vector<Symbol>& reference, std::size_t n) {
  const auto ours = sorted_ngrams(std::span<const Symbol>(hypothesis), n);
  const auto theirs = sorted_ngrams(std::span<const Symbol>(reference), n);
  NgramCounts counts{static_cast<std::int64_t>(ours.size()),
                     static_cast<std::int64_t>(theirs.size())};
  for (std::size_t i = 0, k = 0; i < ours.size() && k < theirs.size();) {
    if (std::ranges::lexicographical_compare(ours[i], theirs[k])) {
      ++i;
    } else if (std::ranges::lexicographical_compare(theirs[k], ours[i])) {
      ++k;
    } else {
      ++counts.shared, ++i, ++k;
    }
  }
  return counts;
}

}  // namespace sluice::metrics
