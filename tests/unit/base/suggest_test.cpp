#include "base/suggest.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace sluice::base {
namespace {

constexpr std::array<std::string_view, 5> kKnown{"hidden", "layers", "learning_rate", "dropout",
                                                 "lr"};

TEST(Suggest, FindsWhatOneTypingErrorMade) {
  EXPECT_EQ(nearest("hiden", kKnown), "hidden");
  EXPECT_EQ(nearest("hiddden", kKnown), "hidden");
  EXPECT_EQ(nearest("hiddem", kKnown), "hidden");
  EXPECT_EQ(nearest("hiddne", kKnown), "hidden");
  EXPECT_EQ(nearest("learnign-rate", kKnown), "learning_rate");
  EXPECT_EQ(nearest("layers", kKnown), "layers");
}

TEST(Suggest, SaysNothingRatherThanNonsense) {
  EXPECT_EQ(nearest("vocabulary", kKnown), "");
  EXPECT_EQ(nearest("x", kKnown), "");  // As far from "lr" as from nothing at all.
  EXPECT_EQ(nearest("", kKnown), "");
  EXPECT_EQ(nearest("hidden", {}), "");
  EXPECT_EQ(nearest(std::string(100'000, 'h'), kKnown), "");
}

TEST(Suggest, CountsSwapsAsOneChange) {
  constexpr std::array<std::string_view, 2> kNames{"abcd", "bacx"};
  // One swap from "abcd"; two changes from "bacx" would be found first by plain edit distance.
  EXPECT_EQ(nearest("bacd", std::array<std::string_view, 1>{"abcd"}), "abcd");
  EXPECT_EQ(nearest("abdc", kNames), "abcd");
}

TEST(Suggest, EndsASentence) {
  EXPECT_EQ(did_you_mean("dropuot", kKnown), "; did you mean 'dropout'?");
  EXPECT_EQ(did_you_mean("vocabulary", kKnown), "");
}

}  // namespace
}  // namespace sluice::base
