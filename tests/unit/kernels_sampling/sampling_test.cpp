#include "kernels/sampling/sampling.h"

#include "kernels/loss/loss.h"
#include "sluice/error.h"
#include "unit/kernels_sampling/sampling_case.h"

/// How samples begin, go on and end.
namespace sluice::kernels::sampling {
namespace {

using testing::Ids;
using testing::kNoLogit;
using testing::random_values;

class Sampling : public testing::SamplingTest {};

/// Everything a search left behind.
struct Outcome {
  Ids emitted, lengths, status, fed;
  std::vector<double> scores;
};

/// Some steps from random logits in which eos is likely, on any device.
Outcome search(runtime::Device& device, const Extent& extent, const Rules& rules,
               std::int64_t vocabulary, const Ids& input_ids, std::uint64_t seed) {
  const runtime::Context context(device);
  runtime::ArenaPlanner planner;
  const StateSlots slots(planner, extent);
  const runtime::Slot logits_slot = planner.saved(DType::kFloat32, {extent.rows(), vocabulary});
  const runtime::Arena arena(device, planner);
  const State state = slots.view(arena, extent);
  const Tensor logits = arena.tensor(logits_slot, DType::kFloat32, {extent.rows(), vocabulary});
  Ids max_lengths;
  for (std::int64_t i = 0; i < extent.inputs; ++i) {
    max_lengths.push_back(static_cast<std::int32_t>(
        std::max<std::int64_t>(1, extent.max_length - input_ids[static_cast<std::size_t>(i)] % 3)));
  }
  context.upload<std::int32_t>(state.max_lengths, max_lengths);
  context.upload<std::int32_t>(state.input_ids, input_ids);
  start(context, rules, state);
  Outcome outcome;
  for (std::int64_t step = 0; step <= extent.max_length; ++step) {
    std::vector<float> values;
    for (std::int64_t row = 0; row < extent.rows(); ++row) {
      const auto id =
          static_cast<std::uint64_t>(input_ids[static_cast<std::size_t>(row / extent.samples)]);
      const auto sample = static_cast<std::uint64_t>(row % extent.samples);
      std::mt19937_64 engine(seed + 1000 * id + 100 * sample + static_cast<std::uint64_t>(step));
      auto own = random_values<float>(engine, vocabulary, 3);
      own[3] += 2;
      values.insert(values.end(), own.begin(), own.end());
    }
    context.upload<float>(logits, values);
    advance(context, rules, state, logits, Tensor());
    const Ids fed = context.download<std::int32_t>(state.tokens);
    outcome.fed.insert(outcome.fed.end(), fed.begin(), fed.end());
  }
  EXPECT_EQ(context.download<std::int32_t>(state.unfinished), Ids{0});
  EXPECT_EQ(context.download<std::int32_t>(state.step),
            Ids{static_cast<std::int32_t>(extent.max_length) + 1});
  outcome.emitted = context.download<std::int32_t>(state.emitted);
  outcome.lengths = context.download<std::int32_t>(state.lengths);
  outcome.status = context.download<std::int32_t>(state.status);
  outcome.scores = context.download<double>(state.scores);
  return outcome;
}

TEST_P(Sampling, GoesTheWayOfTheCpu) {
  const auto host = runtime::open_device("cpu");
  for (const std::int64_t vocabulary : {6, 41, 999, 1500, 11003}) {
    for (const bool force_end : {true, false}) {
      Rules rules;
      rules.force_end = force_end;
      rules.seed = static_cast<std::uint64_t>(vocabulary) << 33;
      rules.temperature = 0.9;
      rules.top_k = vocabulary / 3;
      rules.top_p = 0.9;
      rules.min_length = 2;
      const Extent extent{3, 5, 6, 0, 0, false, DType::kFloat32};
      const Outcome expected = search(*host, extent, rules, vocabulary, {0, 1, 2}, 5);
      const Outcome found = search(*device_, extent, rules, vocabulary, {0, 1, 2}, 5);
      EXPECT_EQ(found.emitted, expected.emitted) << vocabulary;
      EXPECT_EQ(found.fed, expected.fed);
      EXPECT_EQ(found.lengths, expected.lengths);
      EXPECT_EQ(found.status, expected.status);
      for (std::size_t i = 0; i < expected.scores.size(); ++i) {
        // A log-probability of each of 7 steps, off by 1e-6 times 1 + a spread of logits of 8.
        EXPECT_NEAR(found.scores[i], expected.scores[i], 7e-5);
      }
    }
  }
}

// A sample follows from its input's id and its own number.
TEST_P(Sampling, DependsOnNothingElse) {
  Rules rules;
  rules.seed = 9;
  const Extent together{4, 6, 5, 0, 0, false, DType::kFloat32};
  const Ids ids{4, 1, 8, 5};
  const Outcome all = search(*device_, together, rules, 45, ids, 7);
  set_threads(1);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const Outcome alone =
        search(*device_, {1, 2, 5, 0, 0, false, DType::kFloat32}, rules, 45, {ids[i]}, 7);
    for (std::size_t j = 0; j < 2; ++j) {
      const std::size_t row = 6 * i + j;
      EXPECT_EQ(alone.lengths[j], all.lengths[row]);
      EXPECT_EQ(alone.scores[j], all.scores[row]);
      for (std::size_t t = 0; t < 5; ++t) {
        EXPECT_EQ(alone.emitted[5 * j + t], all.emitted[5 * row + t]);
      }
    }
  }
}

TEST_P(Sampling, ScoresAreThoseOfTheLoss) {
  std::mt19937_64 engine(21);
  for (const std::int64_t vocabulary : {37, 1300}) {
    Rules rules;
    rules.temperature = 2;
    rules.top_k = 20;
    rules.min_length = 1;
    const State state = started({1, 30, 2, 0, 0, false, DType::kFloat32}, rules);
    const Tensor logits = put(random_values<float>(engine, 30 * vocabulary, 4), {30, vocabulary});
    advance(context_, rules, state, logits, Tensor());
    loss::TargetScoreArgs score;
    score.time = 1;
    score.rows = 30;
    score.logits = logits;
    score.targets = state.tokens;
    score.token_scores = poisoned(DType::kFloat64, {30});
    loss::score_targets(context_, score);
    EXPECT_EQ(get<double>(state.scores), get<double>(score.token_scores));
  }
}

// Ids 4 to 6, by hand.
TEST_P(Sampling, BeginsWithThePrefixAndEnds) {
  const float n = kNoLogit, nan = std::numeric_limits<float>::quiet_NaN();
  Rules rules;
  const State state = make_state({3, 1, 3, 2, 2, true, DType::kFloat32});
  context_.upload<std::int32_t>(state.prefix, Ids{6, 5, 4, -7, -7, -7});
  context_.upload<std::int32_t>(state.prefix_lengths, Ids{2, 1, 0});
  context_.upload<std::int32_t>(state.max_lengths, Ids{3, 2, 1});
  start(context_, rules, state);
  EXPECT_EQ(get<std::int32_t>(state.input_of_row), (Ids{0, 1, 2}));
  EXPECT_EQ(get<std::int32_t>(state.tokens), Ids(3, 2));
  const auto step = [&](const std::vector<float>& logits, float looked) {
    std::vector<float> attention(6);
    std::iota(attention.begin(), attention.end(), looked);
    advance(context_, rules, state, put(logits, {3, 7}), put(attention, {3, 2}));
  };
  const double half = std::log(0.5);

  step({n, n, n, n, 0, n, 0, n, n, n, n, 0, 0, n, n, n, n, n, n, 0, n}, 10);
  EXPECT_EQ(get<std::int32_t>(state.tokens), (Ids{6, 4, 5}));
  EXPECT_EQ(get<double>(state.scores), (std::vector<double>{half, half, 0}));
  // The first is told to take 5, the second ends of itself, the third has to.
  step({n, n, n, 0, n, 0, n, n, n, n, 9, n, n, n, n, n, n, 1, 1, n, n}, 20);
  EXPECT_EQ(get<std::int32_t>(state.tokens), (Ids{5, 0, 0}));
  EXPECT_EQ(get<std::int32_t>(state.status), (Ids{kLive, kEnded, kEnded}));
  EXPECT_EQ(get<double>(state.scores), (std::vector<double>{2 * half, half, half}));
  EXPECT_EQ(get_scalar<std::int32_t>(state.unfinished), 1);
  // What has ended may see anything.
  step({n, n, n, n, 0, n, n, nan, nan, nan, nan, nan, nan, nan, 9, 9, 9, 9, 9, 9, nan}, 30);
  step({n, n, n, 0, 0, n, n, nan, nan, nan, nan, nan, nan, nan, 9, 9, 9, 9, 9, 9, nan}, 40);
  EXPECT_EQ(get<std::int32_t>(state.status), Ids(3, kEnded));
  EXPECT_EQ(get_scalar<std::int32_t>(state.unfinished), 0);
  EXPECT_EQ(get<double>(state.scores), (std::vector<double>{3 * half, half, half}));
  EXPECT_EQ(get<std::int32_t>(state.lengths), (Ids{3, 1, 1}));
  EXPECT_EQ(get<std::int32_t>(state.emitted), (Ids{6, 5, 4, 4, 0, 0, 5, 0, 0}));
  EXPECT_EQ(get<float>(state.attention),
            (std::vector<float>{10, 11, 20, 21, 30, 31, 12, 13, 0, 0, 0, 0, 14, 15, 0, 0, 0, 0}));
  EXPECT_EQ(get<std::int32_t>(state.faults), Ids(3, 0));
}

TEST_P(Sampling, CutsAtTheMaximumLength) {
  Rules rules;
  rules.force_end = false;
  const State state = make_state({2, 1, 3, 0, 0, false, DType::kFloat32});
  context_.upload<std::int32_t>(state.max_lengths, Ids{3, 2});
  start(context_, rules, state);
  const float n = kNoLogit;
  const Tensor logits = put(std::vector<float>{n, n, n, n, 0, n, n, n, n, 0}, {2, 5});
  for (int step = 0; step < 4; ++step) advance(context_, rules, state, logits, Tensor());
  EXPECT_EQ(get<std::int32_t>(state.status), Ids(2, kCut));
  EXPECT_EQ(get<std::int32_t>(state.tokens), Ids(2, 4));  // what the model is to be fed next
  EXPECT_EQ(get<std::int32_t>(state.lengths), (Ids{3, 2}));
  EXPECT_EQ(get<std::int32_t>(state.emitted), (Ids{4, 4, 4, 4, 4, 0}));
}

// Half of the steps, and then the others from what the first left.
TEST_P(Sampling, GoesOnToTheSameBits) {
  std::mt19937_64 engine(23);
  Rules rules;
  rules.force_end = false;
  rules.min_length = 5;
  const auto values = random_values<float>(engine, 4 * 50, 1);
  const auto run = [&](std::int64_t steps, const State& state) {
    const Tensor logits = put(values, {4, 50});
    for (std::int64_t step = 0; step < steps; ++step) {
      advance(context_, rules, state, logits, Tensor());
    }
  };
  const State whole = started({2, 2, 8, 0, 0, false, DType::kFloat32}, rules);
  run(8, whole);
  const State first = started({2, 2, 4, 0, 0, false, DType::kFloat32}, rules);
  run(4, first);
  const State second = started({2, 2, 4, 0, 0, false, DType::kFloat32}, rules);
  context_.copy(second.tokens, first.tokens);
  context_.copy(second.scores, first.scores);
  context_.upload<std::int32_t>(second.first_step, Ids{4});
  run(4, second);
  EXPECT_EQ(get<double>(second.scores), get<double>(whole.scores));
  const Ids expected = get<std::int32_t>(whole.emitted), a = get<std::int32_t>(first.emitted),
            b = get<std::int32_t>(second.emitted);
  for (std::size_t row = 0; row < 4; ++row) {
    for (std::size_t t = 0; t < 8; ++t) {
      EXPECT_EQ(expected[8 * row + t], t < 4 ? a[4 * row + t] : b[4 * row + t - 4]);
    }
  }
}

TEST_P(Sampling, NotesLogitsWithoutASoftmax) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity(), n = kNoLogit;
  const State state = started({5, 1, 3, 0, 0, false, DType::kFloat32}, {});
  advance(context_, {}, state,
          put(std::vector<float>{0, 0,        nan, 0, 1,   //
                                 n, n,        n,   n, 1,   // is fine
                                 n, n,        n,   n, n,   //
                                 0, infinity, 0,   0, 1,   //
                                 0, n,        0,   n, n},  // nothing that may follow
              {5, 5}),
          Tensor());
  EXPECT_EQ(get<std::int32_t>(state.faults), (Ids{1, 0, 1, 1, 0}));
  EXPECT_EQ(get<std::int32_t>(state.status),
            (Ids{kImpossible, kLive, kImpossible, kImpossible, kImpossible}));
  EXPECT_EQ(get<std::int32_t>(state.lengths), (Ids{-1, 1, -1, -1, -1}));
  EXPECT_EQ(get_scalar<std::int32_t>(state.unfinished), 1);
}

TEST_P(Sampling, RefusesWhatDoesNotFit) {
  const State state = started({2, 2, 3, 0, 4, true, DType::kFloat32}, {});
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
  const auto with = [](auto set) {
    Rules rules;
    set(rules);
    return rules;
  };
  refuses(with([](Rules& r) { r.temperature = -1; }), state, logits, attention);
  refuses(with([](Rules& r) { r.temperature = std::nan(""); }), state, logits, attention);
  refuses(with([](Rules& r) { r.top_k = -1; }), state, logits, attention);
  refuses(with([](Rules& r) { r.top_p = 0; }), state, logits, attention);
  refuses(with([](Rules& r) { r.top_p = 1.5; }), state, logits, attention);
  State damaged = state;
  damaged.scores = poisoned(DType::kFloat64, {3});
  refuses({}, damaged, logits, attention);
}

TEST_P(Sampling, RefusesAMaximumLengthOutOfRange) {
  if (!device_->runs_host_kernels()) GTEST_SKIP() << "a GPU cannot throw: it takes the nearer end";
  const State state = make_state({2, 1, 3, 0, 0, false, DType::kFloat32});
  for (const Ids& lengths : {Ids{3, 4}, Ids{-1, 3}, Ids{3, 0}}) {
    context_.upload<std::int32_t>(state.max_lengths, lengths);
    Rules rules;
    rules.force_end = false;
    EXPECT_THROW(
        {
          start(context_, rules, state);
          context_.synchronize();
        },
        Error);
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, Sampling, testing::devices(), testing::device_name);

}  // namespace
}  // namespace sluice::kernels::sampling
