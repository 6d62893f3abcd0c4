#include "kernels/beam_search/beam_search.h"

#include <fmt/format.h>
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
  for (const std::int64_t vocabulary : {37, 64, 200, 4099, 11003}) {
    for (const std::int64_t beam : {1, 5, 32, 64}) {
      if (beam > vocabulary - 4) continue;
      Extent extent{1, beam, 1, 3, 0, false, DType::kFloat32};
      extent.masked = true;
      const State state = started(extent, {3}, rules);
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

// More of the largest than anyone gathers: all are equal.
TEST_P(BeamSearchKernel, TakesTheLowestOfEqualTokens) {
  Rules rules;
  rules.min_length = 1;
  const State state = started({1, 3, 1, 3, 0, false, DType::kFloat32}, {3}, rules);
  advance(context_, rules, state, put(std::vector<float>(3 * 4099, 0.5f), {3, 4099}), Tensor());
  EXPECT_EQ(get<std::int32_t>(state.tokens), (Ids{1, 4, 5}));  // nothing is unknown here
}

/// Everything a search left behind.
struct Outcome {
  std::vector<Ids> tokens, parents;  ///< after each step
  Ids results, lengths, finished, step, unfinished;
  std::vector<double> scores, normalised;
};

/// One search of `extent.max_length` tokens and the end, with the logits [rows, vocabulary] that
/// `next` makes for each step.
template <typename Next>
Outcome search_on(runtime::Device& device, const Extent& extent, const Rules& rules,
                  std::int64_t vocabulary, const Ids& max_lengths, Next&& next) {
  const runtime::Context context(device);
  runtime::ArenaPlanner planner;
  const StateSlots slots(planner, extent);
  const runtime::Slot logits_slot = planner.saved(DType::kFloat32, {extent.rows(), vocabulary});
  const Shape results{extent.inputs, extent.nbest, extent.max_length};
  const runtime::Slot tokens_slot = planner.saved(DType::kInt32, results);
  const runtime::Arena arena(device, planner);
  const State state = slots.view(arena, extent);
  const Tensor logits = arena.tensor(logits_slot, DType::kFloat32, {extent.rows(), vocabulary});
  const Tensor tokens = arena.tensor(tokens_slot, DType::kInt32, results);
  context.upload<std::int32_t>(state.max_lengths, max_lengths);
  start(context, rules, state);
  Outcome outcome;
  for (std::int64_t step = 0; step <= extent.max_length; ++step) {
    context.upload<float>(logits, next());
    advance(context, rules, state, logits, Tensor());
    outcome.tokens.push_back(context.download<std::int32_t>(state.tokens));
    outcome.parents.push_back(context.download<std::int32_t>(state.parents));
  }
  trace_back(context, rules, state, tokens, Tensor());
  outcome.results = context.download<std::int32_t>(tokens);
  outcome.lengths = context.download<std::int32_t>(state.best_lengths);
  outcome.finished = context.download<std::int32_t>(state.finished);
  outcome.step = context.download<std::int32_t>(state.step);
  outcome.unfinished = context.download<std::int32_t>(state.unfinished);
  outcome.scores = context.download<double>(state.best_scores);
  outcome.normalised = context.download<double>(state.best_normalised);
  return outcome;
}

void expect_same(const Outcome& found, const Outcome& expected, double tolerance) {
  EXPECT_EQ(found.tokens, expected.tokens);
  EXPECT_EQ(found.parents, expected.parents);
  EXPECT_EQ(found.results, expected.results);
  EXPECT_EQ(found.lengths, expected.lengths);
  EXPECT_EQ(found.finished, expected.finished);
  EXPECT_EQ(found.step, expected.step);
  EXPECT_EQ(found.unfinished, expected.unfinished);
  for (std::size_t i = 0; i < expected.scores.size(); ++i) {
    if (expected.lengths[i] < 0) continue;
    EXPECT_NEAR(found.scores[i], expected.scores[i], tolerance);
    EXPECT_NEAR(found.normalised[i], expected.normalised[i], tolerance);
  }
}

TEST_P(BeamSearchKernel, GoesTheWayOfTheCpu) {
  const auto host = runtime::open_device("cpu");
  for (const std::int64_t vocabulary : {40, 150, 999, 1500}) {
    for (const std::int64_t beam : {1, 5, 32, 33}) {
      SCOPED_TRACE(fmt::format("{} tokens, {} beams", vocabulary, beam));
      const Extent extent{3, beam, 4, 6, 0, false, DType::kFloat32};
      Rules rules;
      rules.length_penalty = 0.6;
      const auto search = [&](runtime::Device& device) {
        std::mt19937_64 engine(static_cast<std::uint64_t>(vocabulary + beam));
        return search_on(device, extent, rules, vocabulary, {6, 3, 5}, [&] {
          auto values = random_values<float>(engine, extent.rows() * vocabulary, 3);
          for (std::size_t row = 0; row < static_cast<std::size_t>(extent.rows()); ++row) {
            values[row * static_cast<std::size_t>(vocabulary) + 3] += 3;  // eos is likely
          }
          return values;
        });
      };
      const Outcome expected = search(*host);
      EXPECT_EQ(expected.unfinished, Ids{0});
      EXPECT_EQ(expected.step, (Ids{7, 7, 7}));
      // A log-probability of each of 7 steps, off by 1e-6 times 1 + a spread of logits of 9.
      expect_same(search(*device_), expected, 7e-5);
    }
  }
}

// All that may follow has the same logit, eos too: all scores of a step are equal on any device, so
// that beams and tokens decide, and of many hypotheses that finish at once the rows.
TEST_P(BeamSearchKernel, RanksEqualScoresAsTheCpuDoes) {
  if (device_->runs_host_kernels()) GTEST_SKIP() << "this device runs what the CPU does";
  const auto host = runtime::open_device("cpu");
  for (const std::int64_t vocabulary : {9, 40, 90, 300, 1500}) {
    for (const std::int64_t beam : {1, 3, 32, 40}) {
      for (const std::int64_t nbest : {1, 4, 70}) {
        SCOPED_TRACE(fmt::format("{} tokens, {} beams, {} best", vocabulary, beam, nbest));
        const Extent extent{2, beam, nbest, 7, 0, false, DType::kFloat32};
        Rules rules;
        rules.length_penalty = nbest == 4 ? 0.6 : 0;
        rules.stop_when_full = nbest == 1;
        rules.min_length = 2;
        std::vector<float> values(static_cast<std::size_t>(extent.rows() * vocabulary));
        for (std::size_t i = 0; i < values.size(); ++i) {
          const auto token = static_cast<std::int64_t>(i) % vocabulary;
          values[i] = token == 3 || token % 7 == 5 || token == 8 ? 0.25f : kImpossible;
        }
        const auto search = [&](runtime::Device& device) {
          return search_on(device, extent, rules, vocabulary, {7, 5}, [&] { return values; });
        };
        // As above, with no spread.
        expect_same(search(*device_), search(*host), 7e-6);
      }
    }
  }
}

TEST_P(BeamSearchKernel, TakesFloat64) {
  const bool ran = try_float64([&] {
    std::mt19937_64 engine(6);
    Rules rules;
    rules.min_length = 1;
    for (const std::int64_t vocabulary : {90, 1101}) {
      const State state = started({1, 3, 1, 3, 0, false, DType::kFloat64}, {3}, rules);
      auto logits = random_values<double>(engine, 3 * vocabulary, 4);
      for (std::size_t special = 0; special < 4; ++special) logits[special] = -5;
      advance(context_, rules, state, put(logits, {3, vocabulary}), Tensor());
      Ids expected = sorted_pieces(std::vector<double>(
          logits.begin(), logits.begin() + static_cast<std::ptrdiff_t>(vocabulary)));
      expected.resize(3);
      EXPECT_EQ(get<std::int32_t>(state.tokens), expected);
    }
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

/// Bits of a mask [rows, ceil(V / 32)] that allows all but these tokens of each row.
Ids mask_without(const std::vector<Ids>& forbidden, std::int64_t vocabulary) {
  Ids mask;
  for (const Ids& tokens : forbidden) {
    const auto first = mask.size();
    mask.resize(first + static_cast<std::size_t>((vocabulary + 31) / 32), -1);
    for (const std::int32_t v : tokens) {
      mask[first + static_cast<std::size_t>(v / 32)] &= ~static_cast<std::int32_t>(1u << (v % 32));
    }
  }
  return mask;
}

// What a mask forbids is not chosen, and all scores stay as they are.
TEST_P(BeamSearchKernel, TakesWhatAMaskAllows) {
  std::mt19937_64 engine(11);
  Rules rules;
  rules.min_length = 1;
  rules.unknown = 1;
  for (const std::int64_t vocabulary : {38, 300, 4099}) {
    for (const std::int64_t beam : {1, 6, 33}) {
      SCOPED_TRACE(fmt::format("{} tokens, {} beams", vocabulary, beam));
      Extent extent{1, beam, 1, 3, 0, false, DType::kFloat32};
      extent.masked = true;
      const State state = started(extent, {3}, rules);
      const auto row = coarse_values<float>(engine, vocabulary);
      std::vector<float> rows;
      for (std::int64_t r = 0; r < beam; ++r) rows.insert(rows.end(), row.begin(), row.end());
      const Tensor logits = put(rows, {beam, vocabulary});
      const Ids sorted = sorted_pieces(row);
      Ids forbidden, expected;
      for (std::size_t i = 0; i < sorted.size(); ++i) {
        (i % 3 == 0 ? forbidden : expected).push_back(sorted[i]);
      }
      expected.resize(std::min(expected.size(), static_cast<std::size_t>(beam)));
      Extras extras;
      extras.mask =
          put(mask_without(std::vector<Ids>(static_cast<std::size_t>(beam), forbidden), vocabulary),
              {beam, (vocabulary + 31) / 32});
      advance(context_, rules, state, logits, Tensor(), extras);
      Ids tokens = get<std::int32_t>(state.tokens);
      const auto live = static_cast<std::int64_t>(expected.size());
      tokens.resize(expected.size());
      EXPECT_EQ(tokens, expected);
      loss::TargetScoreArgs score;
      score.time = 1;
      score.rows = live;
      score.logits = logits.slice(0, 0, live);
      score.targets = put(expected);
      score.token_scores = poisoned(DType::kFloat64, {live});
      loss::score_targets(context_, score);
      auto scores = get<double>(state.scores);
      scores.resize(expected.size());
      EXPECT_EQ(scores, get<double>(score.token_scores));
      release_memory();
    }
  }
}

TEST_P(BeamSearchKernel, EndsRowsThatMayGoOnWithNothing) {
  Rules rules;
  rules.min_length = 2;
  Extent extent{2, 2, 1, 3, 0, false, DType::kFloat32};
  extent.masked = true;
  const State state = started(extent, {3, 3}, rules);
  const Tensor logits = put(std::vector<float>(4 * 7, 0.0f), {4, 7});
  advance(context_, rules, state, logits, Tensor());
  const Ids all{0, 1, 2, 3, 4, 5, 6};
  Extras extras;
  // The first row of the first input may not go on, and neither row of the second.
  extras.mask = put(mask_without({all, {}, all, all}, 7), {4, 1});
  advance(context_, rules, state, logits, Tensor(), extras);
  const auto parents = get<std::int32_t>(state.parents);
  EXPECT_EQ(parents[0], 1);
  EXPECT_EQ(parents[1], 1);
  EXPECT_EQ(get<std::int32_t>(state.done), (Ids{0, 1}));
  EXPECT_EQ(get_scalar<std::int32_t>(state.unfinished), 1);
  EXPECT_EQ(get<std::int32_t>(state.best_lengths), (Ids{-1, -1}));
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
  Extras extras;
  extras.mask = poisoned(DType::kInt32, {4, 1});
  EXPECT_THROW(advance(context_, {}, state, logits, attention, extras), Error);  // not asked for
  extras.mask = poisoned(DType::kInt32, {4, 2});
  Extent masked = state.extent;
  masked.masked = true;
  const State with_mask = started(masked, {3, 3});
  EXPECT_THROW(advance(context_, {}, with_mask, logits, attention, extras), Error);
  State damaged = state;
  damaged.scores = poisoned(DType::kFloat64, {3});
  refuses({}, damaged, logits, attention);
  EXPECT_THROW(trace_back(context_, {}, state, poisoned(DType::kInt32, {2, 1, 2}), attention),
               Error);
}

TEST_P(BeamSearchKernel, RefusesAMaximumLengthBeyondTheHistory) {
  const State state = make_state({2, 1, 1, 3, 0, false, DType::kFloat32}, {3, 4});
  const auto run = [&] {
    start(context_, {}, state);
    context_.synchronize();
  };
  if (device_->runs_host_kernels()) {
    EXPECT_THROW(run(), Error);
    return;
  }
  run();  // a GPU can't throw: it takes 3
  const Tensor logits = put(std::vector<float>{0, 0, 0, 0, 9, 0, 0, 0, 0, 9}, {2, 5});
  for (int step = 0; step < 4; ++step) advance(context_, {}, state, logits, Tensor());
  EXPECT_EQ(get_scalar<std::int32_t>(state.unfinished), 0);
  EXPECT_EQ(get<std::int32_t>(state.best_lengths), (Ids{3, 3}));
}

TEST_P(BeamSearchKernel, RecordsEachStep) {
  // Two inputs with two beams; after the second step the first input is done, after the third all.
  const State state = started({2, 2, 1, 3, 0, false, DType::kFloat32}, {3, 3});
  const StepRecord record{poisoned(DType::kInt32, {5, 4}), poisoned(DType::kInt32, {5, 4}),
                          poisoned(DType::kFloat64, {5, 4}), poisoned(DType::kInt32, {2})};
  Ids tokens, parents;
  std::vector<double> scores;
  const std::vector<std::int32_t> unfinished{2, 1, 0, 0};
  for (std::int32_t step = 0; step < 4; ++step) {
    const Ids now{step, step + 1, step + 2, step + 3}, from{1, 0, 3, 2};
    const std::vector<double> sums{-1.0 * step, kNone, -3.5, kNone};
    context_.upload<std::int32_t>(state.step, Ids{step + 1, step + 1});
    context_.upload<std::int32_t>(state.unfinished,
                                  Ids{unfinished[static_cast<std::size_t>(step)]});
    context_.upload<std::int32_t>(state.tokens, now);
    context_.upload<std::int32_t>(state.parents, from);
    context_.upload<double>(state.scores, sums);
    sluice::kernels::beam_search::record(context_, state, record);
    tokens.insert(tokens.end(), now.begin(), now.end());
    parents.insert(parents.end(), from.begin(), from.end());
    scores.insert(scores.end(), sums.begin(), sums.end());
    EXPECT_EQ(get<std::int32_t>(record.taken), (Ids{std::min(step + 1, 3), step >= 2 ? 1 : 0}));
  }
  const auto begins_with = [](const auto& all, const auto& part) {
    return std::equal(part.begin(), part.end(), all.begin());
  };
  EXPECT_TRUE(begins_with(get<std::int32_t>(record.tokens), tokens));
  EXPECT_TRUE(begins_with(get<std::int32_t>(record.parents), parents));
  EXPECT_TRUE(begins_with(get<double>(record.scores), scores));
}

INSTANTIATE_TEST_SUITE_P(Devices, BeamSearchKernel, testing::devices(), testing::device_name);

}  // namespace
}  // namespace sluice::kernels::beam_search
