#include "decoding/beam_steps.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <random>

#include "data/tokenizer.h"
#include "sluice/error.h"
#include "unit/decoding/reference_search.h"
#include "unit/decoding/table_model.h"
#include "unit/support/message_of.h"
#include "unit/support/on_device.h"

namespace sluice::decoding {
namespace {

using testing::message_of;
using testing::next_node;
using testing::Node;
using testing::random_logits;
using testing::TableModel;

constexpr double kNone = -std::numeric_limits<double>::infinity();
// The kernel's float32 softmax is good to about 1e-6 a step; ten steps stay below 1e-5.
constexpr double kTolerance = 1e-5;

/// A sequence of the naive search.
struct Row {
  std::int32_t token = data::kPadId;
  std::int32_t parent = 0;
  double score = kNone;
  Node node = 0;  ///< before `token`
  bool exists() const { return score != kNone; }
};

struct Case {
  std::int64_t vocabulary = 9, inputs = 2;
  BeamStepsOptions options;
  testing::Logit logit = random_logits(3);
  std::vector<std::int32_t> begin, tokens;  ///< of each row
  std::vector<double> scores;
  std::vector<std::uint8_t> allowed;  ///< [mask_steps, mask_inputs, vocabulary], or none
  std::int64_t mask_steps = 1, mask_inputs = 1;

  std::int64_t rows() const { return inputs * options.beam; }
  BeamMask mask() const { return {allowed, mask_steps, mask_inputs}; }
  bool allows(std::int64_t step, std::int64_t input, std::int64_t token) const {
    if (token == data::kPadId || token == data::kBosId) return false;
    if (token == data::kUnknownId && !options.allow_unknown) return false;
    if (token == data::kEosId && step < options.min_length) return false;
    if (allowed.empty()) return true;
    const std::int64_t s = mask_steps == 1 ? 0 : step, i = mask_inputs == 1 ? 0 : input;
    return allowed[static_cast<std::size_t>((s * mask_inputs + i) * vocabulary + token)] != 0;
  }
};

/// What an input's rows choose, written down naively: [steps][beam], and what finished, best first.
struct Expected {
  std::vector<std::vector<Row>> steps;
  struct Finished {
    std::int64_t length, row;
    double score, normalised;
  };
  std::vector<Finished> finished;
  std::int64_t taken = 0;     ///< steps until it was done
  bool is_ambiguous = false;  ///< whether rounding may decide between two
  void compare(double a, double b) { is_ambiguous |= std::abs(a - b) < 2 * kTolerance; }
};

Expected naive_search(const Case& c, std::int64_t input) {
  const std::int64_t beam = c.options.beam, first = input * beam;
  const auto penalty = [&](std::int64_t length) {
    return std::pow((5.0 + static_cast<double>(length)) / 6.0, c.options.length_penalty);
  };
  std::vector<Row> live;
  for (std::int64_t b = 0; b < beam; ++b) {
    const auto at = static_cast<std::size_t>(first + b);
    live.push_back({c.tokens[at], 0, c.scores[at], testing::first_node(c.begin[at])});
  }
  Expected expected;
  bool done = false;
  for (std::int64_t step = 0; step < c.options.steps; ++step) {
    if (!done) expected.taken = step + 1;
    std::vector<Row> candidates;
    for (std::int64_t b = 0; b < beam && !done; ++b) {
      const Row& row = live[static_cast<std::size_t>(b)];
      if (!row.exists()) continue;
      const Node node = next_node(row.node, row.token);
      const auto log_p = testing::reference_log_softmax(c.logit, node, c.vocabulary);
      for (std::int32_t v = 0; v < c.vocabulary; ++v) {
        if (!c.allows(step, input, v)) continue;
        candidates.push_back({v, static_cast<std::int32_t>(first + b),
                              row.score + log_p[static_cast<std::size_t>(v)], node});
      }
    }
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](const Row& a, const Row& b) { return a.score > b.score; });
    for (std::int64_t i = 1; i < std::min<std::int64_t>(2 * beam + 1, std::ssize(candidates));
         ++i) {
      expected.compare(candidates[static_cast<std::size_t>(i)].score,
                       candidates[static_cast<std::size_t>(i - 1)].score);
    }
    std::vector<Row> next;
    std::int64_t rank = 0;
    for (const Row& one : candidates) {
      if (std::ssize(next) == beam) break;
      if (one.token != data::kEosId) {
        next.push_back(one);
      } else if (rank < beam) {
        expected.finished.push_back({step, one.parent, one.score, one.score / penalty(step + 1)});
      }
      ++rank;
    }
    auto& kept = expected.finished;
    std::stable_sort(kept.begin(), kept.end(),
                     [](const auto& a, const auto& b) { return a.normalised > b.normalised; });
    for (std::size_t i = 1; i < kept.size(); ++i) {
      expected.compare(kept[i].normalised, kept[i - 1].normalised);
    }
    if (std::ssize(kept) > c.options.nbest) kept.resize(static_cast<std::size_t>(c.options.nbest));
    if (!done && !next.empty() && std::ssize(kept) == c.options.nbest) {
      const double bound = next[0].score / penalty(c.options.steps + 1);
      expected.compare(bound, kept.back().normalised);
      done = bound <= kept.back().normalised;
    }
    done = done || next.empty();
    if (done) next.clear();
    for (std::int64_t b = std::ssize(next); b < beam; ++b) {
      next.push_back({data::kPadId, static_cast<std::int32_t>(first + b), kNone, 0});
    }
    expected.steps.push_back(next);
    live = next;
  }
  return expected;
}

class BeamStepsTest : public testing::OnDevice {
 protected:
  struct Found {
    std::int64_t steps;
    std::vector<std::int32_t> tokens, parents, lengths, rows;
    std::vector<double> scores, best_scores, best_normalised;
  };

  Found run(const Case& c) {
    TableModel model(context_, c.vocabulary, c.rows(), 0, c.logit);
    runtime::ArenaPlanner planner;
    runtime::Arena arena;
    BeamSteps search(model, c.options, c.inputs, runtime::DType::kFloat32, c.mask(), planner,
                     arena);
    arena = runtime::Arena(*device_, planner);
    Found found{};
    // Twice, since what one search leaves behind must not show in the next.
    for (int i = 0; i < 2; ++i) {
      const BeamStepsResults results =
          search.run(context_, {c.inputs, c.begin, c.scores, c.tokens}, c.mask());
      found.steps = results.steps;
      found.tokens = context_.download<std::int32_t>(results.record.tokens);
      found.parents = context_.download<std::int32_t>(results.record.parents);
      found.scores = context_.download<double>(results.record.scores);
      found.lengths = context_.download<std::int32_t>(results.state.best_lengths);
      found.rows = context_.download<std::int32_t>(results.state.best_rows);
      found.best_scores = context_.download<double>(results.state.best_scores);
      found.best_normalised = context_.download<double>(results.state.best_normalised);
    }
    return found;
  }

  /// Returns whether the case was fit to be compared.
  bool expect_as_naive(const Case& c) {
    for (std::int64_t i = 0; i < c.inputs; ++i) {
      if (naive_search(c, i).is_ambiguous) return false;
    }
    const Found found = run(c);
    std::int64_t taken = 0;
    for (std::int64_t i = 0; i < c.inputs; ++i) {
      SCOPED_TRACE("input " + std::to_string(i));
      const Expected expected = naive_search(c, i);
      taken = std::max(taken, expected.taken);
      for (std::int64_t step = 0; step < found.steps; ++step) {
        for (std::int64_t b = 0; b < c.options.beam; ++b) {
          const auto at = static_cast<std::size_t>(step * c.rows() + i * c.options.beam + b);
          const Row& row =
              expected.steps[static_cast<std::size_t>(step)][static_cast<std::size_t>(b)];
          EXPECT_EQ(found.tokens[at], row.token) << "step " << step << " beam " << b;
          EXPECT_EQ(found.parents[at], row.parent) << "step " << step << " beam " << b;
          if (row.exists()) {
            EXPECT_NEAR(found.scores[at], row.score, kTolerance);
          } else {
            EXPECT_EQ(found.scores[at], kNone);
          }
        }
      }
      for (std::int64_t j = 0; j < c.options.nbest; ++j) {
        const auto at = static_cast<std::size_t>(i * c.options.nbest + j);
        if (j >= std::ssize(expected.finished)) {
          EXPECT_EQ(found.lengths[at], -1);
          continue;
        }
        const auto& one = expected.finished[static_cast<std::size_t>(j)];
        EXPECT_EQ(found.lengths[at], one.length);
        EXPECT_EQ(found.rows[at], one.row);
        EXPECT_NEAR(found.best_scores[at], one.score, kTolerance);
        EXPECT_NEAR(found.best_normalised[at], one.normalised, kTolerance);
      }
    }
    EXPECT_EQ(found.steps, taken);
    return true;
  }
};

/// Rows of each input that go on from its own state, or a state for each row.
Case random_case(std::mt19937& random, bool every_beam) {
  const auto draw = [&](int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random);
  };
  Case c;
  // Few candidates, so that rounding seldom decides between two.
  c.vocabulary = draw(6, 14);
  c.inputs = draw(1, 3);
  c.options.beam = draw(1, std::min(6, static_cast<int>(c.vocabulary) - 4));
  c.options.nbest = draw(1, static_cast<int>(c.options.beam));
  c.options.steps = draw(1, 8);
  c.options.min_length = draw(0, static_cast<int>(c.options.steps));
  c.options.length_penalty = draw(0, 1) * .8;
  c.options.allow_unknown = draw(0, 1) == 1;
  const float bias = static_cast<float>(draw(-3, 2));
  c.logit = [bias](Node node, std::int64_t token) {
    return 3 * testing::unit(node, token) + (token == data::kEosId ? bias : 0.0f);
  };
  for (std::int32_t i = 0; i < c.inputs; ++i) {
    for (std::int64_t b = 0; b < c.options.beam; ++b) {
      const bool exists = every_beam ? b == 0 || draw(0, 3) > 0 : b == 0;
      c.begin.push_back(every_beam ? static_cast<std::int32_t>(c.begin.size()) : i);
      c.tokens.push_back(draw(0, static_cast<int>(c.vocabulary) - 1));
      // Different ones, so that no two candidates are equal.
      c.scores.push_back(exists ? -.01 * draw(0, 1000) - 1e-4 * static_cast<double>(b) : kNone);
    }
  }
  return c;
}

TEST_P(BeamStepsTest, ChoosesWhatANaiveSearchChooses) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  int compared = 0;
  for (int i = 0; i < 60 && !HasFailure(); ++i) {
    SCOPED_TRACE("case " + std::to_string(i));
    compared += expect_as_naive(random_case(random, i % 2 == 1)) ? 1 : 0;
  }
  EXPECT_GT(compared, 20);
}

TEST_P(BeamStepsTest, ChoosesOnlyWhatTheMaskAllows) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  int compared = 0;
  for (int i = 0; i < 60 && !HasFailure(); ++i) {
    SCOPED_TRACE("case " + std::to_string(i));
    Case c = random_case(random, i % 2 == 1);
    c.mask_steps = i % 3 == 0 ? 1 : c.options.steps;
    c.mask_inputs = i % 5 < 2 ? 1 : c.inputs;
    for (std::int64_t k = 0; k < c.mask_steps * c.mask_inputs; ++k) {
      for (std::int64_t v = 0; v < c.vocabulary; ++v) c.allowed.push_back(random() % 3 == 0);
      // Something always may be chosen.
      c.allowed[static_cast<std::size_t>((k + 1) * c.vocabulary - 1)] = 1;
    }
    compared += expect_as_naive(c) ? 1 : 0;
  }
  EXPECT_GT(compared, 20);
}

TEST_P(BeamStepsTest, FewerStepsChooseTheSame) {
  std::mt19937 random(7);
  Case whole = random_case(random, true);
  whole.options.steps = 6;
  whole.options.min_length = 6;  // so that both halves are looked at whole
  const Found all = run(whole);
  Case part = whole;
  part.options.steps = part.options.min_length = 3;
  const Found begun = run(part);
  const auto rows = static_cast<std::size_t>(whole.rows());
  EXPECT_TRUE(std::equal(begun.tokens.begin(), begun.tokens.end(), all.tokens.begin()));
  EXPECT_TRUE(std::equal(begun.scores.begin(), begun.scores.end(), all.scores.begin()));
  ASSERT_EQ(begun.tokens.size(), 3 * rows);
}

TEST_P(BeamStepsTest, RefusesInOneSentence) {
  std::mt19937 random(3);
  Case c = random_case(random, false);
  c.inputs = 1;
  c.begin.resize(static_cast<std::size_t>(c.options.beam));
  c.tokens.resize(c.begin.size());
  c.scores.resize(c.begin.size());
  const auto refused = [&](const auto& change) {
    Case changed = c;
    change(changed);
    return message_of([&] { run(changed); });
  };
  EXPECT_EQ(refused([](Case& one) { one.options.steps = 0; }),
            "steps is 0; it must be in 1..1048576");
  EXPECT_EQ(
      refused([](Case& one) { one.options.beam = one.options.nbest = one.vocabulary + 1; }),
      fmt::format("beam is {}; the vocabulary has {} tokens", c.vocabulary + 1, c.vocabulary));
  EXPECT_EQ(refused([](Case& one) { one.tokens[0] = static_cast<std::int32_t>(one.vocabulary); }),
            fmt::format("row 0 begins with token {}; the vocabulary has {} tokens", c.vocabulary,
                        c.vocabulary));
  EXPECT_NE(refused([](Case& one) { one.scores[0] = std::nan(""); }).find("the score of row 0"),
            std::string::npos);
  EXPECT_EQ(refused([](Case& one) {
              one.allowed.assign(static_cast<std::size_t>(one.vocabulary), 0);
              one.allowed[data::kPadId] = 1;
            }),
            "the mask of step 0 and input 0 allows no token that may be chosen");
  const auto only_end = [](Case& one) {
    one.options.steps = 2;
    one.options.min_length = 1;
    one.mask_steps = 2;
    one.allowed.assign(static_cast<std::size_t>(2 * one.vocabulary), 1);
    std::fill_n(one.allowed.begin(), one.vocabulary, 0);
    one.allowed[data::kEosId] = 1;
  };
  EXPECT_EQ(refused(only_end),
            "the mask of step 0 and input 0 allows only the end mark, which min_length 1 forbids "
            "there; allow another token");
  EXPECT_EQ(refused([&](Case& one) {
              only_end(one);
              one.options.min_length = 0;
            }),
            "");
}

INSTANTIATE_TEST_SUITE_P(Devices, BeamStepsTest, testing::devices(), testing::device_name);

}  // namespace
}  // namespace sluice::decoding
