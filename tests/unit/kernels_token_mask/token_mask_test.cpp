#include "kernels/token_mask/token_mask.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

#include "sluice/error.h"
#include "unit/support/on_device.h"

namespace sluice::kernels::token_mask {
namespace {

using Ids = std::vector<std::int32_t>;

class TokenMask : public testing::OnDevice {};

/// Whether `token` may follow `tokens`, in the most naive way.
bool may_follow(const Ids& tokens, std::int32_t token, const std::vector<Ids>& phrases,
                std::size_t no_repeat) {
  Ids longer = tokens;
  longer.push_back(token);
  for (const Ids& phrase : phrases) {
    if (longer.size() >= phrase.size() &&
        std::equal(phrase.rbegin(), phrase.rend(), longer.rbegin())) {
      return false;
    }
  }
  if (no_repeat == 0 || longer.size() < no_repeat) return true;
  const Ids last(longer.end() - static_cast<std::ptrdiff_t>(no_repeat), longer.end());
  return std::search(tokens.begin(), tokens.end(), last.begin(), last.end()) == tokens.end();
}

TEST_P(TokenMask, FollowsRowsAndTheirParents) {
  const std::uint64_t seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937_64 engine(seed);
  const auto number = [&](std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(engine);
  };
  for (int repeat = 0; repeat < 25; ++repeat) {
    Extent extent{number(1, 7), number(5, 150), number(1, 9)};
    const Rules rules{number(0, 4)};
    // Few different tokens, so that much repeats.
    const auto piece = [&] {
      return static_cast<std::int32_t>(number(0, std::min<std::int64_t>(extent.vocabulary, 5) - 1));
    };
    std::vector<Ids> phrases;
    Ids ends, phrase_tokens, allowed(static_cast<std::size_t>(words_of(extent.vocabulary)));
    for (auto& word : allowed) word = static_cast<std::int32_t>(number(-2147483648, 2147483647));
    for (std::int64_t n = number(0, 4); n > 0; --n) {
      Ids phrase(static_cast<std::size_t>(number(2, 3)));
      for (auto& token : phrase) token = piece();
      phrase_tokens.insert(phrase_tokens.end(), phrase.begin(), phrase.end());
      ends.push_back(static_cast<std::int32_t>(phrase_tokens.size()));
      phrases.push_back(phrase);
    }
    extent.phrases = std::ssize(ends);
    extent.phrase_tokens = std::ssize(phrase_tokens);
    runtime::ArenaPlanner planner;
    const StateSlots slots(planner, extent);
    const runtime::Arena arena(*device_, planner);
    const State state = slots.view(arena, extent);
    context_.upload<std::int32_t>(state.allowed, allowed);
    context_.upload<std::int32_t>(state.phrase_ends, ends);
    context_.upload<std::int32_t>(state.phrase_tokens, phrase_tokens);

    const bool moves = number(0, 1) == 1;
    const auto rows = static_cast<std::size_t>(extent.rows);
    std::vector<Ids> histories(rows);
    for (std::int64_t step = 0; step <= extent.max_length; ++step) {
      Ids tokens(rows, -1), parents(rows, -1);  // not read at step 0
      if (step > 0) {
        const std::vector<Ids> before = histories;
        for (std::size_t r = 0; r < rows; ++r) {
          parents[r] = moves ? static_cast<std::int32_t>(number(0, extent.rows - 1))
                             : static_cast<std::int32_t>(r);
          tokens[r] = piece();
          histories[r] = before[static_cast<std::size_t>(parents[r])];
          histories[r].push_back(tokens[r]);
        }
      }
      const Tensor at = put(Ids{static_cast<std::int32_t>(step), 99});
      update(context_, rules, state, at, put(tokens), moves ? put(parents) : Tensor());
      const auto mask = get<std::int32_t>(state.mask);
      for (std::size_t r = 0; r < rows; ++r) {
        for (std::int32_t v = 0; v < extent.vocabulary; ++v) {
          const auto word = static_cast<std::size_t>(v / 32);
          const auto bit = [&](std::int32_t bits) {
            return (static_cast<std::uint32_t>(bits) >> (v % 32) & 1u) != 0;
          };
          const bool expected =
              bit(allowed[word]) &&
              may_follow(histories[r], v, phrases, static_cast<std::size_t>(rules.no_repeat));
          ASSERT_EQ(bit(mask[r * allowed.size() + word]), expected)
              << "row " << r << " step " << step << " token " << v;
        }
      }
    }
    release_memory();
  }
}

TEST_P(TokenMask, TakesLogitsAway) {
  const float n = -std::numeric_limits<float>::infinity();
  std::vector<float> values(2 * 35), expected;
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  expected = values;
  Ids mask{-1, -1, ~(1 << 3), ~(1 << 2)};
  expected[35 + 3] = expected[35 + 34] = n;
  const Tensor out = poisoned(DType::kFloat32, {2, 35});
  apply(context_, put(mask, {2, 2}), put(values, {2, 35}), out);
  EXPECT_EQ(get<float>(out), expected);
}

TEST_P(TokenMask, RefusesTensorsThatDoNotFit) {
  const Tensor logits = poisoned(DType::kFloat32, {2, 35});
  const auto refuses = [&](const Tensor& mask, const Tensor& out) {
    EXPECT_THROW(apply(context_, mask, logits, out), Error);
  };
  refuses(poisoned(DType::kInt32, {2, 1}), logits);
  refuses(poisoned(DType::kFloat32, {2, 2}), logits);
  refuses(poisoned(DType::kInt32, {2, 2}), poisoned(DType::kFloat32, {2, 34}));
  refuses(poisoned(DType::kInt32, {2, 2}), poisoned(DType::kFloat64, {2, 35}));
  EXPECT_THROW(apply(context_, poisoned(DType::kInt32, {2, 2}), poisoned(DType::kInt32, {2, 35}),
                     poisoned(DType::kInt32, {2, 35})),
               Error);
}

TEST_P(TokenMask, PicksTheMasksOfAStep) {
  // Three steps of two inputs, 40 tokens: two words each, which say where they come from.
  Ids words;
  for (std::int32_t step = 0; step < 3; ++step) {
    for (std::int32_t input = 0; input < 2; ++input) {
      for (std::int32_t word = 0; word < 2; ++word) words.push_back(100 * step + 10 * input + word);
    }
  }
  const Tensor of_steps = put(words, {3, 2, 2});
  const auto picked = [&](std::int32_t step, const Tensor& from) {
    const Tensor mask = poisoned(DType::kInt32, {4, 2});
    pick(context_, from, put(Ids{step, -7}, {2}), mask);
    return get<std::int32_t>(mask);
  };
  EXPECT_EQ(picked(1, of_steps), (Ids{100, 101, 100, 101, 110, 111, 110, 111}));
  // Behind the last one, that one.
  EXPECT_EQ(picked(5, of_steps), (Ids{200, 201, 200, 201, 210, 211, 210, 211}));
  EXPECT_EQ(picked(2, put(Ids{5, 6}, {1, 1, 2})), (Ids{5, 6, 5, 6, 5, 6, 5, 6}));
  EXPECT_THROW(pick(context_, of_steps, put(Ids{0}, {1}), poisoned(DType::kInt32, {3, 2})), Error);
}

INSTANTIATE_TEST_SUITE_P(Devices, TokenMask, testing::devices(), testing::device_name);

}  // namespace
}  // namespace sluice::kernels::token_mask
