#include "metrics/ngrams.h"

#include <gtest/gtest.h>

#include <string>

namespace sluice::metrics {
namespace {

void expect_counts(const std::string& hypothesis, const std::string& reference, std::size_t n,
                   const std::vector<std::int64_t>& expected) {
  const NgramCounts counts = count_ngrams(std::vector<char>(hypothesis.begin(), hypothesis.end()),
                                          std::vector<char>(reference.begin(), reference.end()), n);
  EXPECT_EQ((std::vector<std::int64_t>{counts.hypothesis, counts.reference, counts.shared}),
            expected)
      << hypothesis << ", " << reference << ", " << n;
}

TEST(Ngrams, AreSharedAsOftenAsBothHaveThem) {
  expect_counts("aaaa", "aab", 1, {4, 3, 2});
  expect_counts("aaaa", "aab", 2, {3, 2, 1});
  expect_counts("abcab", "cabab", 2, {4, 4, 3});
  expect_counts("abcab", "cabab", 3, {3, 3, 1});
  expect_counts("ba", "ab", 2, {1, 1, 0});
}

TEST(Ngrams, OfShortAndEmptySequencesAreNone) {
  expect_counts("", "", 1, {0, 0, 0});
  expect_counts("ab", "abc", 3, {0, 1, 0});
  expect_counts("ab", "", 2, {1, 0, 0});
}

}  // namespace
}  // namespace sluice::metrics
