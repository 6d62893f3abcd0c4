#include "data/shuffle.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <vector>

namespace sluice::data {
namespace {

// The first outputs for state 0, as the algorithm's authors publish them.
TEST(SplitMix, MixesAsPublished) {
  constexpr std::uint64_t kIncrement = 0x9E3779B97F4A7C15ull;
  EXPECT_EQ(SplitMix::mix(kIncrement), 0xE220A8397B1DCDAFull);
  EXPECT_EQ(SplitMix::mix(2 * kIncrement), 0x6E789E6AA1B965F4ull);
  EXPECT_EQ(SplitMix::mix(3 * kIncrement), 0x06C45D188009454Full);
}

TEST(SplitMix, StreamsOfOneSeedDiffer) {
  EXPECT_EQ(SplitMix(5, 7).next(), SplitMix(5, 7).next());
  EXPECT_NE(SplitMix(5, 7).next(), SplitMix(5, 8).next());
  EXPECT_NE(SplitMix(5, 7).next(), SplitMix(6, 7).next());
  EXPECT_NE(SplitMix(5, 7).next(), SplitMix(7, 5).next());
}

TEST(SplitMix, BelowIsEven) {
  SplitMix random(1);
  std::array<int, 7> counts{};
  constexpr int kDraws = 70000;
  for (int i = 0; i < kDraws; ++i) ++counts.at(random.below(7));
  // Binomial with mean 10000 and standard deviation 93: six of those either way.
  for (const int count : counts) EXPECT_NEAR(count, 10000, 560);
}

TEST(Shuffle, GivesEveryOrderEquallyOften) {
  std::map<std::vector<int>, int> counts;
  SplitMix random(3);
  for (int i = 0; i < 24000; ++i) {
    std::vector<int> items{0, 1, 2, 3};
    shuffle(std::span(items), random);
    ++counts[items];
  }
  EXPECT_EQ(counts.size(), 24u);
  // Mean 1000, standard deviation 31.
  for (const auto& [order, count] : counts) EXPECT_NEAR(count, 1000, 186);
}

TEST(Shuffle, KeepsItsAlgorithm) {
  // A changed algorithm would make resumed runs see other batches than those they were cut off
  // from.
  std::vector<int> items(10);
  std::iota(items.begin(), items.end(), 0);
  SplitMix random(42, 1);
  shuffle(std::span(items), random);
  EXPECT_EQ(items, (std::vector<int>{2, 8, 6, 5, 1, 4, 7, 0, 3, 9}));
  std::vector<int> none;
  shuffle(std::span(none), random);
}

}  // namespace
}  // namespace sluice::data
