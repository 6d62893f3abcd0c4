#include "runtime/rng.h"

#include <gtest/gtest.h>

namespace sluice::runtime {
namespace {

using Words = std::array<std::uint32_t, 4>;

// The known answers that the authors of Philox publish with their generator.
TEST(Philox, GivesTheKnownAnswers) {
  EXPECT_EQ(philox(0, {0, 0, 0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr std::uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(philox(~std::uint64_t{0}, {kOnes, kOnes, kOnes, kOnes}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
}

TEST(DropoutKey, DependsOnEveryPartOfItsName) {
  const DropoutKey key{7, 3, 2};
  const std::uint32_t word = key.word(5, 6, 8);
  EXPECT_EQ(word, (DropoutKey{7, 3, 2}).word(5, 6, 8));
  EXPECT_NE(word, (DropoutKey{8, 3, 2}).word(5, 6, 8));
  EXPECT_NE(word, (DropoutKey{7, 4, 2}).word(5, 6, 8));
  EXPECT_NE(word, (DropoutKey{7, 3, 1}).word(5, 6, 8));
  EXPECT_NE(word, key.word(4, 6, 8));
  EXPECT_NE(word, key.word(5, 7, 8));
  EXPECT_NE(word, key.word(5, 6, 9));
}

}  // namespace
}  // namespace sluice::runtime
