#include "kernels/beam_search/beam_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/loss/loss.h"
#include "sluice/error.h"
#include "unit/support/on_device.h"

namespace sluice::kernels::beam_search {
namespace {

using base::Shape;
using testing::random_values;

using Ids = std::vector<std::int32_t>;

constexpr double kNone = -std::numeric_limits<double>::infinity();
constexpr float kImpossible = -std::numeric_limits<float>::infinity();

class BeamSearchKernel : public testing::OnDevice {
 protected:
  State make_state(const Extent& extent, const Ids& max_lengths) {
    runtime::ArenaPlanner planner;
    const StateSlots slots(planner, extent);
    arena_ = runtime::Arena(*device_, planner);
    const State state = slots.view(arena_, extent);
    context_.upload<std::int32_t>(state.max_lengths, max_lengths);
    return state;
  }
  State started(const Extent& extent, const Ids& max_lengths, const Rules& rules = {}) {
    const State state = make_state(extent, max_lengths);
    start(context_, rules, state);
    return state;
  }

  runtime::Arena arena_;
};

TEST_P(BeamSearchKernel, StartsWithOnePrefixAnInput) {
  const State state = started({2, 3, 2, 4, 0, false, DType::kFloat32}, {4, 2});
  EXPECT_EQ(get<std::int32_t>(state.input_of_row), (Ids{0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(get<std::int32_t>(state.tokens), Ids(6, 2));
  EXPECT_EQ(get<double>(state.scores), (std::vector<double>{0, kNone, kNone, 0, kNone, kNone}));
  EXPECT_EQ(get_scalar<std::int32_t>(state.unfinished), 2);
  EXPECT_EQ(get<std::int32_t>(state.best_lengths), Ids(4, -1));
}

template <typename T>
std::vector<T> coarse_values(std::mt19937_64& engine, std::int64_t count) {
  std::vector<T> values = random_values<T>(engine, count, 4);
  for (T& v : values) v = std::round(v * 16) / 16;  // so that many are equal
  return values;
}

/// Ids from 4 on, in order of their logits; equal ones in order of ids.
template <typename T>
Ids sorted_pieces(const std::vector<T>& logits) {
  Ids order;
  for (std::int32_t v = 4; v < static_cast<std::int32_t>(logits.size()); ++v) order.push_back(v);
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    return logits[static_cast<std::size_t>(a)] > logits[static_cast<std::size_t>(b)];
  });
  return order;
}

// One live row of a large vocabulary against a sort of all of it; scores are those of the loss
// family to the bit, so that a search and a scoring of the same text agree.
TEST_P(BeamSearchKernel, TakesTheLargestOfALargeVocabulary) {
  std::mt19937_64 engine(5);
  Rules rules;
  rules.min_length = 1;
  rules.unknown = 1;
  for (const std::int64_t vocabulary : {37, 64, 200, 4099}) {
    for (const std::int64_t beam : {1, 5, 32}) {
      const State state = started({1, beam, 1, 3, 0, false, DType::kFloat32}, {3}, rules);
      const auto row = coarse_values<float>(engine, vocabulary);
      std::vector<float> rows;
      for (std::int64_t r = 0; r < beam; ++r) rows.insert(rows.end(), row.begin(), row.end());
      const Tensor logits = put(rows, {beam, vocabulary});
      advance(context_, rules, state, logits, Tensor());

      Ids expected = sorted_pieces(row);
      expected.resize(static_cast<std::size_t>(beam));
      EXPECT_EQ(get<std::int32_t>(state.tokens), expected) << vocabulary << " " << beam;
      loss::TargetScoreArgs score;
      score.time = 1;
      score.rows = beam;
      score.logits = logits;
      score.targets = state.tokens;
      score.token_scores = poisoned(DType::kFloat64, {beam});
      loss::score_targets(context_, score);
      EXPECT_EQ(get<double>(state.scores), get<double>(score.token_scores));
    }
  }
}

TEST_P(BeamSearchKernel, TakesFloat64) {
  const bool ran = try_float64([&] {
    std::mt19937_64 engine(6);
    Rules rules;
    rules.min_length = 1;
    const State state = started({1, 3, 1, 3, 0, false, DType::kFloat64}, {3}, rules);
    auto logits = random_values<double>(engine, 3 * 90, 4);
    for (std::size_t special = 0; special < 4; ++special) logits[special] = -5;
    advance(context_, rules, state, put(logits, {3, 90}), Tensor());
    Ids expected = sorted_pieces(std::vector<double>(logits.begin(), logits.begin() + 90));
    expected.resize(3);
    EXPECT_EQ(get<std::int32_t>(state.tokens), expected);
  });
  if (!ran) GTEST_SKIP() << "this device takes no float64";
}

// Two beams, ids 4 to 6, by hand: equal logits share p evenly, the others have none.
TEST_P(BeamSearchKernel, FinishesAndTracesBack) {
  const Rules rules;
  const float n = kImpossible, nan = std::numeric_limits<float>::quiet_NaN();
  const State state = started({1, 2, 2, 3, 2, true, DType::kFloat32}, {3}, rules);
  const double half = std::log(0.5);
  const auto step = [&](const std::vector<float>& logits, float looked) {
    advance(context_, rules, state, put(logits, {2, 7}),
            put(std::vector<float>{looked, looked + 1, looked + 2, looked + 3}, {2, 2}));
  };

  // 5 or 6. Row 1 is dead and may hold anything.
  step({n, n, n, n, n, 1, 1, nan, nan, nan, nan, nan, nan, nan}, 10);
  EXPECT_EQ(get<std::int32_t>(state.tokens), (Ids{5, 6}));
  EXPECT_EQ(get<std::int32_t>(state.parents), (Ids{0, 0}));
  EXPECT_EQ(get<double>(state.scores), (std::vector<double>{half, half}));

  // Row 0 (5) ends or goes on with 4; row 1 (6) goes on with 5 for sure, which is now the best.
  step({n, n, n, 0, 0, n, n, n, n, n, n, n, 0, n}, 20);
  EXPECT_EQ(get<std::int32_t>(state.tokens), (Ids{5, 4}));
  EXPECT_EQ(get<std::int32_t>(state.parents), (Ids{1, 0}));
  EXPECT_EQ(get<double>(state.scores), (std::vector<double>{half, 2 * half}));
  EXPECT_EQ(get<std::int32_t>(state.best_lengths), (Ids{1, -1}));
  EXPECT_EQ(get_scalar<std::int32_t>(state.unfinished), 1);

  // Row 0 (6 5) ends for sure: the second kept, ahead of the first. Nothing can beat those.
  step({n, n, n, 0, n, n, n, n, n, n, n, 0, n, n}, 30);
  EXPECT_EQ(get<std::int32_t>(state.best_lengths), (Ids{2, 1}));
  EXPECT_EQ(get<double>(state.best_scores), (std::vector<double>{half, 2 * half}));
  EXPECT_EQ(get_scalar<std::int32_t>(state.unfinished), 0);
  EXPECT_EQ(get<std::int32_t>(state.tokens), (Ids{0, 0}));
  EXPECT_EQ(get<std::int32_t>(state.parents), (Ids{0, 1}));

  // More steps change nothing, whatever the logits.
  step(std::vector<float>(14, nan), 40);
  const Tensor tokens = poisoned(DType::kInt32, {1, 2, 3});
  const Tensor attention = poisoned(DType::kFloat32, {1, 2, 3, 2});
  trace_back(context_, rules, state, tokens, attention);
  EXPECT_EQ(get<std::int32_t>(tokens), (Ids{6, 5, 0, 5, 0, 0}));
  EXPECT_EQ(get<float>(attention), (std::vector<float>{10, 11, 22, 23, 0, 0, 10, 11, 0, 0, 0, 0}));
  EXPECT_EQ(get_scalar<std::int32_t>(state.faults), 0);
}

TEST_P(BeamSearchKernel, NotesLogitsWithoutASoftmax) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  const State state = started({4, 1, 1, 3, 0, false, DType::kFloat32}, {3, 3, 3, 3});
  const auto step = [&](const std::vector<float>& logits) {
    advance(context_, {}, state, put(logits, {4, 5}), Tensor());
  };
  step({0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1});
  const float n = kImpossible;
  step({0, 0,        nan, 0, 1,  //
        0, 0,        0,   n, 1,  // is fine
        n, n,        n,   n, n,  //
        0, infinity, 0,   0, 1});
  EXPECT_EQ(get<std::int32_t>(state.faults), (Ids{2, 0, 2, 2}));
  EXPECT_EQ(get_scalar<std::int32_t>(state.unfinished), 1);
}

TEST_P(BeamSearchKernel, RefusesTensorsThatDoNotFit) {
  const State state = started({2, 2, 1, 3, 4, true, DType::kFloat32}, {3, 3});
  const Tensor logits = poisoned(DType::kFloat32, {4, 9});
  const Tensor attention = poisoned(DType::kFloat32, {4, 4});
  const auto refuses = [&](const Rules& rules, const State& s, const Tensor& l, const Tensor& a) {
    EXPECT_THROW(advance(context_, rules, s, l, a), Error);
  };
  refuses({}, state, poisoned(DType::kFloat32, {3, 9}), attention);
  refuses({}, state, poisoned(DType::kFloat64, {4, 9}), attention);
  refuses({}, state, poisoned(DType::kFloat32, {4, 3}), attention);  // no eos
  refuses({}, state, logits, poisoned(DType::kFloat32, {4, 5}));
  refuses({}, state, logits, Tensor());
  Rules negative;
  negative.length_penalty = -1;
  refuses(negative, state, logits, attention);
  State damaged = state;
  damaged.scores = poisoned(DType::kFloat64, {3});
  refuses({}, damaged, logits, attention);
  EXPECT_THROW(trace_back(context_, {}, state, poisoned(DType::kInt32, {2, 1, 2}), attention),
               Error);
}

TEST_P(BeamSearchKernel, RefusesAMaximumLengthBeyondTheHistory) {
  const State state = make_state({2, 1, 1, 3, 0, false, DType::kFloat32}, {3, 4});
  EXPECT_THROW(
      {
        start(context_, {}, state);
        context_.synchronize();
      },
      Error);
}

INSTANTIATE_TEST_SUITE_P(Devices, BeamSearchKernel, testing::devices(), testing::device_name);

}  // namespace
}  // namespace sluice::kernels::beam_search
