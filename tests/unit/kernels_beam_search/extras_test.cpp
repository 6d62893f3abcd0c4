#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <type_traits>

#include "kernels/beam_search/beam_search.h"
#include "kernels/beam_search/coverage.h"
#include "kernels/beam_search/forced.h"
#include "kernels/beam_search/perturbation.h"
#include "kernels/token_mask/token_mask.h"
#include "unit/io/allocation_watch.h"
#include "unit/support/message_of.h"
#include "unit/support/on_device.h"

namespace sluice::kernels::beam_search {
namespace {

using base::Shape;
using testing::random_values;

using Ids = std::vector<std::int32_t>;

TEST(Forced, FollowsAPhraseAsAnAutomatonDoes) {
  const Ids phrase{5, 6, 5, 6, 7};
  std::int32_t progress = 0;
  const auto feed = [&](std::int32_t token) {
    return progress = progress_after(phrase.data(), 5, progress, token);
  };
  EXPECT_EQ(feed(5), 1);
  EXPECT_EQ(feed(6), 2);
  EXPECT_EQ(feed(5), 3);
  EXPECT_EQ(feed(5), 1);  // begins again
  EXPECT_EQ(feed(6), 2);
  EXPECT_EQ(feed(5), 3);
  EXPECT_EQ(feed(6), 4);
  EXPECT_EQ(feed(5), 3);  // the last three are the first three
  EXPECT_EQ(feed(9), 0);
  for (const std::int32_t token : phrase) feed(token);
  EXPECT_EQ(progress, 5);
  EXPECT_EQ(feed(9), 5);  // for good
}

TEST(Forced, CountsTokensToCome) {
  const Ids tokens{4, 5, 0, 6, 0, 0, 7, 8, 9}, lengths{2, 1, 3};
  const Phrases phrases{tokens.data(), lengths.data(), 3, 3};
  const auto left = [&](const Ids& progress, std::int32_t token) {
    return left_after(phrases, progress.data(), token).steps();
  };
  EXPECT_EQ(left({0, 0, 0}, -1), 6);
  EXPECT_EQ(left({0, 0, 0}, 6), 5);
  EXPECT_EQ(left({1, 0, 0}, -1), 5);
  EXPECT_EQ(left({1, 0, 0}, 5), 4);
  EXPECT_EQ(left({1, 0, 0}, 7), 5);  // what was begun is lost, and another begun
  EXPECT_EQ(left({1, 0, 0}, 9), 6);
  EXPECT_EQ(left({2, 1, 2}, 9), 0);
  EXPECT_EQ(left({2, 1, 3}, 4), 0);
}

// Where the textbook's -log(exp(-maximum) - exp(-largest) + exp(-value)) cancels, long double
// has digits left.
TEST(Perturbation, PutsTheLargestAtTheMaximum) {
  std::mt19937_64 engine(3);
  std::uniform_real_distribution<double> draw(-6, 6);
  for (int i = 0; i < 200; ++i) {
    const double largest = draw(engine), maximum = draw(engine);
    const double value = largest - std::exp(draw(engine));
    EXPECT_EQ(given_maximum(largest, largest, maximum), maximum);
    const double given = given_maximum(value, largest, maximum);
    EXPECT_LT(given, maximum);
    const long double textbook = -std::log(std::exp(-static_cast<long double>(maximum)) -
                                           std::exp(-static_cast<long double>(largest)) +
                                           std::exp(-static_cast<long double>(value)));
    // exp(6) in three terms of 64 bits, and what is left of them at least exp(-6).
    if (std::isfinite(static_cast<double>(textbook)) && value > -12) {
      EXPECT_NEAR(given, static_cast<double>(textbook), 1e-8);
    }
  }
  EXPECT_NEAR(log1mexp(-1e-20), std::log(1e-20), 1e-12);
  EXPECT_EQ(log1mexp(-800.0), -std::exp(-800.0));
}

TEST(Perturbation, NoiseIsGumbels) {
  double sum = 0, squares = 0;
  constexpr int kCount = 200000;
  for (std::uint32_t token = 0; token < kCount; ++token) {
    const double noise = gumbel<double>({9, 1, 2, 3}, token);
    ASSERT_TRUE(std::isfinite(noise));
    sum += noise;
    squares += noise * noise;
  }
  const double mean = sum / kCount;
  EXPECT_NEAR(mean, 0.57722, 4 * 1.2825 / std::sqrt(kCount));
  // Its fourth central moment is 5.4 times the square of its variance, pi^2 / 6.
  EXPECT_NEAR(squares / kCount - mean * mean, 1.64493, 4 * 1.64493 * std::sqrt(4.4 / kCount));
  EXPECT_NE(gumbel<double>({9, 1, 2, 3}, 0), gumbel<double>({9, 1, 2, 4}, 0));
  EXPECT_NE(gumbel<double>({9, 1, 2, 3}, 0), gumbel<double>({9, 1, 3, 3}, 0));
  EXPECT_NE(gumbel<double>({9, 1, 2, 3}, 0), gumbel<double>({9, 2, 2, 3}, 0));
  EXPECT_NE(gumbel<double>({9, 1, 2, 3}, 0), gumbel<double>({8, 1, 2, 3}, 0));
}

TEST(Coverage, IsAtMostZeroAndFinite) {
  EXPECT_EQ(coverage_of(1.5), 0);
  EXPECT_EQ(coverage_of(0.25), std::log(0.25));
  EXPECT_TRUE(std::isfinite(coverage_of(0.0)));
}

/// What a search with extras left behind.
struct Outcome {
  std::vector<Ids> tokens, parents;
  Ids results, lengths, finished, unfinished, prefix, prefix_lengths;
  std::vector<double> scores, normalised;
  std::vector<float> attention;
};

struct Case {
  Extent extent;
  Rules rules;
  Extras extras;
  std::int64_t vocabulary = 0;
};

template <typename T>
Outcome search_on(runtime::Device& device, const Case& c, std::uint64_t seed) {
  const runtime::Context context(device);
  const Extent& e = c.extent;
  runtime::ArenaPlanner planner;
  const StateSlots slots(planner, e);
  const auto logits_slot = planner.saved(e.dtype, {e.rows(), c.vocabulary});
  const auto attention_slot = planner.saved(e.dtype, {e.rows(), e.source_time});
  const std::int64_t words = token_mask::words_of(c.vocabulary);
  const auto mask_slot = planner.saved(DType::kInt32, {e.rows(), words});
  const Shape results{e.inputs, e.nbest, e.max_length};
  const auto tokens_slot = planner.saved(DType::kInt32, results);
  const Shape looked{e.inputs, e.nbest, e.max_length, e.source_time};
  const auto looked_slot = planner.saved(e.dtype, e.attention ? looked : Shape{0});
  const runtime::Arena arena(device, planner);
  const State state = slots.view(arena, e);
  const Tensor logits = arena.tensor(logits_slot, e.dtype, {e.rows(), c.vocabulary});
  const Tensor attention = arena.tensor(attention_slot, e.dtype, {e.rows(), e.source_time});
  const Tensor tokens = arena.tensor(tokens_slot, DType::kInt32, results);
  std::mt19937_64 engine(seed);
  const auto numbers = [&](std::int64_t count, std::int64_t least, std::int64_t most) {
    Ids all(static_cast<std::size_t>(count));
    for (auto& one : all) {
      one = static_cast<std::int32_t>(
          std::uniform_int_distribution<std::int64_t>(least, most)(engine));
    }
    return all;
  };
  context.upload<std::int32_t>(state.max_lengths, Ids(static_cast<std::size_t>(e.inputs),
                                                      static_cast<std::int32_t>(e.max_length)));
  if (e.phrases > 0) {
    // They fit whatever is drawn: phrases of up to two tokens, three of them, in six.
    context.upload<std::int32_t>(state.phrase_tokens,
                                 numbers(e.inputs * e.phrases * e.phrase_time, 4,
                                         std::min<std::int64_t>(c.vocabulary, 9) - 1));
    context.upload<std::int32_t>(state.phrase_lengths,
                                 numbers(e.inputs * e.phrases, 0, e.phrase_time));
  }
  if (e.coverage)
    context.upload<std::int32_t>(state.source_lengths, numbers(e.inputs, 1, e.source_time));
  if (e.sampled_vocabulary > 0) {
    context.upload<std::int32_t>(state.input_ids, numbers(e.inputs, 0, 1000));
  }
  Outcome outcome;
  if (e.prefix_time > 0) {
    outcome.prefix = numbers(e.inputs * e.prefix_time, 4, c.vocabulary - 1);
    // The unknown token, which no row may choose, is taken from a prefix.
    for (std::int64_t i = 0; i < e.inputs; i += 2) {
      outcome.prefix[static_cast<std::size_t>(i * e.prefix_time)] = c.rules.unknown;
    }
    outcome.prefix_lengths = numbers(e.inputs, 0, e.prefix_time);
    outcome.prefix_lengths[0] = static_cast<std::int32_t>(e.prefix_time);
    context.upload<std::int32_t>(state.prefix, outcome.prefix);
    context.upload<std::int32_t>(state.prefix_lengths, outcome.prefix_lengths);
  }
  start(context, c.rules, state);
  Extras extras = c.extras;
  for (std::int64_t step = 0; step <= e.max_length; ++step) {
    auto values = random_values<T>(engine, e.rows() * c.vocabulary, 3);
    for (std::int64_t row = 0; row < e.rows(); ++row) {
      values[static_cast<std::size_t>(row * c.vocabulary) + 3] += 2;  // eos is likely
    }
    context.upload<T>(logits, values);
    auto weights = random_values<T>(engine, e.rows() * e.source_time, 0.3);
    for (T& w : weights) w = std::abs(w);
    if (e.source_time > 0) context.upload<T>(attention, weights);
    if (e.masked) {
      extras.mask = arena.tensor(mask_slot, DType::kInt32, {e.rows(), words});
      Ids bits = numbers(e.rows() * words, -2147483648, 2147483647);
      for (std::size_t row = 0; row < bits.size(); row += static_cast<std::size_t>(words)) {
        bits[row] |= 1 << 3;  // so that a few end
      }
      context.upload<std::int32_t>(extras.mask, bits);
    }
    advance(context, c.rules, state, logits, e.source_time > 0 ? attention : Tensor(), extras);
    outcome.tokens.push_back(context.download<std::int32_t>(state.tokens));
    outcome.parents.push_back(context.download<std::int32_t>(state.parents));
  }
  const Tensor result_attention =
      e.attention ? arena.tensor(looked_slot, e.dtype, looked) : Tensor();
  trace_back(context, c.rules, state, tokens, result_attention);
  if constexpr (std::is_same_v<T, float>) {
    if (e.attention) outcome.attention = context.download<float>(result_attention);
  }
  outcome.results = context.download<std::int32_t>(tokens);
  outcome.lengths = context.download<std::int32_t>(state.best_lengths);
  outcome.finished = context.download<std::int32_t>(state.finished);
  outcome.unfinished = context.download<std::int32_t>(state.unfinished);
  outcome.scores = context.download<double>(state.best_scores);
  outcome.normalised = context.download<double>(state.best_normalised);
  return outcome;
}

class BeamSearchExtras : public testing::OnDevice {
 protected:
  void expect_the_way_of_the_cpu(const Case& c, std::uint64_t seed) {
    const auto host = runtime::open_device("cpu");
    const Outcome expected = search_on<float>(*host, c, seed);
    const Outcome found = search_on<float>(*device_, c, seed);
    EXPECT_EQ(expected.unfinished, Ids{0});
    EXPECT_EQ(found.tokens, expected.tokens);
    EXPECT_EQ(found.parents, expected.parents);
    EXPECT_EQ(found.results, expected.results);
    EXPECT_EQ(found.lengths, expected.lengths);
    EXPECT_EQ(found.finished, expected.finished);
    EXPECT_EQ(found.unfinished, expected.unfinished);
    EXPECT_EQ(found.attention, expected.attention);
    if (c.extent.prefix_time > 0) expect_prefixes(c, expected);
    for (std::size_t i = 0; i < expected.scores.size(); ++i) {
      if (expected.lengths[i] < 0) continue;
      // A log-probability of each of 7 steps, off by 1e-6 times 1 + a spread of logits of 9.
      EXPECT_NEAR(found.scores[i], expected.scores[i], 7e-5);
      EXPECT_NEAR(found.normalised[i], expected.normalised[i], 7e-5);
    }
  }

  /// An input has a hypothesis, and each of them begins with its prefix and is long enough.
  static void expect_prefixes(const Case& c, const Outcome& outcome) {
    const Extent& e = c.extent;
    for (std::int64_t i = 0; i < e.inputs; ++i) {
      EXPECT_GE(outcome.lengths[static_cast<std::size_t>(i * e.nbest)], 0) << "input " << i;
      const auto* prefix = outcome.prefix.data() + i * e.prefix_time;
      const std::int32_t given = outcome.prefix_lengths[static_cast<std::size_t>(i)];
      for (std::int64_t which = i * e.nbest; which < (i + 1) * e.nbest; ++which) {
        const std::int32_t length = outcome.lengths[static_cast<std::size_t>(which)];
        if (length < 0) continue;
        EXPECT_GE(length, std::max<std::int64_t>(given, c.rules.min_length));
        const auto* tokens = outcome.results.data() + which * e.max_length;
        EXPECT_TRUE(std::equal(prefix, prefix + given, tokens)) << "input " << i;
        EXPECT_EQ(std::count(tokens + given, tokens + length, c.rules.unknown), 0);
      }
    }
  }
  /// With prefixes, a least length and the attention kept.
  static Case begun(Case c) {
    c.extent.prefix_time = 3;
    c.extent.attention = true;
    if (c.extent.source_time == 0) c.extent.source_time = 5;
    c.rules.unknown = 1;
    c.rules.min_length = 4;
    return c;
  }

  static Case plain(std::int64_t vocabulary, std::int64_t beam) {
    Case c;
    c.vocabulary = vocabulary;
    c.extent = {6, beam, std::min<std::int64_t>(beam, 4), 6, 0, false, DType::kFloat32};
    c.rules.length_penalty = 0.6;
    return c;
  }
};

TEST_P(BeamSearchExtras, GoTheWayOfTheCpu) {
  std::uint64_t seed = 1;
  // A device that runs what the CPU does shows no more with more.
  const bool is_other = !device_->runs_host_kernels();
  for (const std::int64_t vocabulary : is_other ? std::vector<std::int64_t>{12, 40, 999, 1500, 5003}
                                                : std::vector<std::int64_t>{40}) {
    for (const std::int64_t beam : {1, 5, 33}) {
      if (!is_other && beam > 5) continue;
      const auto check = [&](const char* what, Case c) {
        SCOPED_TRACE(fmt::format("{}: {} tokens, {} beams", what, vocabulary, beam));
        expect_the_way_of_the_cpu(c, ++seed);
      };
      Case masked = plain(vocabulary, beam);
      masked.extent.masked = true;
      check("mask", masked);

      Case groups = plain(vocabulary, beam);
      groups.extent.groups = 3;
      groups.extras.diversity = 0.8;
      check("groups", groups);
      check("groups with prefixes", begun(groups));

      Case forced = plain(vocabulary, beam);
      forced.extent.phrases = 3;
      forced.extent.phrase_time = 2;
      check("forced", forced);

      Case covered = plain(vocabulary, beam);
      covered.extent.coverage = true;
      covered.extent.source_time = 40;
      covered.extras.coverage = 0.5;
      check("coverage", covered);
      check("coverage with prefixes", begun(covered));

      Case drawn = plain(vocabulary, beam);
      drawn.extent.sampled_vocabulary = vocabulary;
      drawn.extras.temperature = 1.3;
      drawn.extras.seed = seed;
      check("draws", drawn);
      check("draws with prefixes", begun(drawn));

      Case all = forced;
      all.extent.groups = 2;
      all.extras.diversity = 0.4;
      all.extent.coverage = true;
      all.extent.source_time = 7;
      all.extras.coverage = 0.3;
      check("all", all);
    }
  }
}

TEST_P(BeamSearchExtras, TakeFloat64) {
  const bool ran = try_float64([&] {
    Case c = plain(1200, 4);
    c.extent.dtype = DType::kFloat64;
    c.extent.masked = true;
    const auto host = runtime::open_device("cpu");
    const Outcome expected = search_on<double>(*host, c, 3);
    const Outcome found = search_on<double>(*device_, c, 3);
    EXPECT_EQ(found.results, expected.results);
    EXPECT_EQ(found.lengths, expected.lengths);
  });
  if (!ran) GTEST_SKIP() << "this device takes no float64";
}

TEST_P(BeamSearchExtras, RefuseExtentsThatCannotBe) {
  const auto said = [&](const auto& set) {
    State state;
    state.extent = plain(9, 2).extent;
    set(state.extent);
    const std::string in_start = testing::message_of([&] { start(context_, {}, state); });
    const std::string in_record = testing::message_of([&] { record(context_, state, {}); });
    EXPECT_NE(in_record, "");
    return in_start;
  };
  EXPECT_EQ(said([](Extent& e) { e.groups = 0; }),
            "beam_search start: 6 inputs are not in groups of 0");
  EXPECT_EQ(said([](Extent& e) { e.groups = 4; }),
            "beam_search start: 6 inputs are not in groups of 4");
  EXPECT_EQ(said([](Extent& e) { e.phrases = -1; }),
            "beam_search start: -1 phrases of up to 0 tokens can't be");
  EXPECT_EQ(said([](Extent& e) { e.phrases = 2; }),
            "beam_search start: 2 phrases of up to 0 tokens can't be");
  EXPECT_EQ(said([](Extent& e) { e.prefix_time = -1; }),
            "beam_search start: prefixes of -1 tokens and sources of 0 can't be");
  EXPECT_EQ(said([](Extent& e) { e.sampled_vocabulary = -1; }),
            "beam_search start: can't draw from -1 tokens");
  EXPECT_NE(said([](Extent& e) {
              e.sampled_vocabulary = 9;
              e.groups = 2;
            }).find("take no groups"),
            std::string::npos);
  for (const bool is_wide : {false, true}) {
    const std::string refusal = said([&](Extent& e) {
      e.sampled_vocabulary = 9;
      (is_wide ? e.beam : e.max_length) = is_wide ? 4097 : 1 << 20;
    });
    EXPECT_NE(refusal.find("at most 4096 beams and fewer than 1048576 tokens"), std::string::npos)
        << refusal;
  }
}

// A list of the candidates would take 24 bytes for each of them, on every thread.
TEST(BeamSearchExtrasOnTheCpu, TakeNoMemoryWithTheirCandidates) {
  const auto device = runtime::open_device("cpu");
  const runtime::Context context(*device);
  for (const std::int64_t phrases : {0, 3}) {
    for (const std::int64_t groups : {1, 2}) {
      Extent e{6, 128, 4, 6, 0, false, DType::kFloat32};
      e.groups = groups;
      e.phrases = phrases;
      e.phrase_time = phrases > 0 ? 2 : 0;
      e.masked = true;
      runtime::ArenaPlanner planner;
      const StateSlots slots(planner, e);
      const auto logits_slot = planner.saved(e.dtype, {e.rows(), 1000});
      const runtime::Arena arena(*device, planner);
      const State state = slots.view(arena, e);
      const Tensor logits = arena.tensor(logits_slot, e.dtype, {e.rows(), 1000});
      std::mt19937_64 engine(2);
      context.upload<float>(logits, random_values<float>(engine, e.rows() * 1000, 3));
      context.upload<std::int32_t>(state.max_lengths, Ids(6, 6));
      if (phrases > 0) {
        context.upload<std::int32_t>(state.phrase_tokens, Ids(36, 7));
        context.upload<std::int32_t>(state.phrase_lengths, Ids(18, 2));
      }
      start(context, {}, state);
      advance(context, {}, state, logits, Tensor());
      const io::AllocationWatch watch;
      for (int step = 1; step <= 6; ++step) advance(context, {}, state, logits, Tensor());
      EXPECT_LT(watch.peak(), 24u * 128 * 129) << phrases << " phrases, " << groups << " groups";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, BeamSearchExtras, testing::devices(), testing::device_name);

}  // namespace
}  // namespace sluice::kernels::beam_search
