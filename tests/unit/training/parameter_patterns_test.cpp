#include "training/parameter_patterns.h"

#include <gtest/gtest.h>

#include <random>

#include "unit/support/temporary_folder.h"

namespace sluice::training {
namespace {

bool match(std::string_view list, std::string_view name) {
  return ParameterPatterns("key", list).match(name);
}

// As the definition says, in exponential time.
bool by_definition(std::string_view pattern, std::string_view name) {
  if (pattern.empty()) return name.empty();
  if (pattern[0] == '*') {
    for (std::size_t n = 0; n <= name.size(); ++n) {
      if (by_definition(pattern.substr(1), name.substr(n))) return true;
    }
    return false;
  }
  return !name.empty() && (pattern[0] == '?' || pattern[0] == name[0]) &&
         by_definition(pattern.substr(1), name.substr(1));
}

TEST(ParameterPatterns, MatchWholeNames) {
  EXPECT_TRUE(match("encoder.*", "encoder.weight_ih_l0"));
  EXPECT_FALSE(match("encoder.*", "decoder.encoder.weight"));
  EXPECT_FALSE(match("encoder", "encoder.weight_ih_l0"));
  EXPECT_TRUE(match("*.bias_?h_l0", "decoder.bias_ih_l0"));
  EXPECT_FALSE(match("output.bias", "outputxbias"));
  EXPECT_TRUE(match(" output.* ,\tsource_embedding.weight", "source_embedding.weight"));
  EXPECT_TRUE(match(" output.* ,\tsource_embedding.weight", "output.bias"));
  EXPECT_TRUE(ParameterPatterns("key", " ").empty());
  EXPECT_FALSE(match("", "output.bias"));
}

TEST(ParameterPatterns, MatchAsDefined) {
  std::mt19937 random(std::random_device{}());
  const auto draw = [&](std::string_view letters, unsigned most) {
    std::string text;
    for (unsigned n = random() % (most + 1); n > 0; --n) text += letters[random() % letters.size()];
    return text;
  };
  int matched = 0;
  for (int i = 0; i < 20'000; ++i) {
    const std::string pattern = "a" + draw("ab*?", 6), name = "a" + draw("ab", 7);
    const bool expected = by_definition(pattern, name);
    ASSERT_EQ(match(pattern, name), expected) << pattern << ' ' << name;
    matched += expected;
  }
  EXPECT_GT(matched, 1000);
}

TEST(ParameterPatterns, TakeNoTimeToFail) {
  std::string pattern;
  for (int i = 0; i < 100; ++i) pattern += "*a";
  EXPECT_FALSE(match(pattern + "b", std::string(10'000, 'a')));
}

TEST(ParameterPatterns, RefuseWhatIsOfNoUse) {
  for (const char* list : {"a,,b", ",", "a,"}) {
    const Error error = testing::error_of([&] { ParameterPatterns("training.freeze", list); });
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(std::string(error.what()).find("training.freeze is '" + std::string(list) + "'"),
              std::string::npos)
        << error.what();
  }
  const std::vector<layers::ParameterSpec> specs{{"one.a", {}, {}}, {"two.a", {}, {}}};
  const ParameterPatterns patterns("training.freeze", "*.a,one.?,three.*");
  const Error error = testing::error_of([&] { patterns.require_use(specs, names_of(specs)); });
  EXPECT_STREQ(error.what(),
               "'three.*' of training.freeze matches no parameter; choose from: one.a, two.a");
  ParameterPatterns("training.freeze", "*.a,one.?").require_use(specs, names_of(specs));
}

}  // namespace
}  // namespace sluice::training
