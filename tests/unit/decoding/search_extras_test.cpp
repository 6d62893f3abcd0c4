#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "decoding/search.h"
#include "sluice/error.h"
#include "unit/decoding/reference_extras.h"
#include "unit/decoding/table_model.h"
#include "unit/support/message_of.h"
#include "unit/support/on_device.h"

namespace sluice::decoding {
namespace {

using testing::Logit;
using testing::random_logits;
using testing::ReferenceExtras;
using testing::ReferenceInput;
using testing::TableModel;
using testing::Tokens;

using Found = std::vector<std::vector<Hypothesis>>;

// The kernel's float32 softmax is good to about 1e-6 a step; ten steps stay below 1e-5. Coverage
// adds logarithms of float32 sums, times up to 1.
constexpr double kTolerance = 2e-5;

std::uint64_t fresh_seed() {
  const char* chosen = std::getenv("SLUICE_TEST_SEED");
  return chosen != nullptr ? std::strtoull(chosen, nullptr, 10) : std::random_device()();
}

class SearchExtras : public testing::OnDevice {
 protected:
  struct Case {
    std::int64_t vocabulary = 9;
    Logit logit = random_logits(3);
    std::vector<ReferenceInput> inputs{};
    SearchOptions options{};
  };

  Found decode(const Case& c) {
    std::vector<std::int32_t> lengths;
    std::vector<Tokens> prefixes;
    std::vector<TokenSequences> forced;
    for (const ReferenceInput& input : c.inputs) {
      lengths.push_back(static_cast<std::int32_t>(input.source_length));
      prefixes.push_back(input.prefix);
      forced.push_back(input.phrases);
    }
    const auto inputs = std::ssize(lengths);
    const std::int32_t source_time = *std::ranges::max_element(lengths);
    TableModel model(context_, c.vocabulary, inputs * c.options.beam, source_time, c.logit);
    model.set_first_input(c.inputs.front().number);
    SearchCapacity capacity{inputs, source_time};
    capacity.prefix_time = longest(prefixes);
    capacity.phrases = size_of(forced).phrases;
    capacity.phrase_time = size_of(forced).time;
    BeamSearch search(context_, model, c.options, capacity);
    return fetch(context_, search.run(context_, lengths, prefixes, forced));
  }

  static void expect_same(const std::vector<Hypothesis>& found,
                          const std::vector<Hypothesis>& expected) {
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t j = 0; j < found.size(); ++j) {
      SCOPED_TRACE("hypothesis " + std::to_string(j));
      EXPECT_EQ(found[j].tokens, expected[j].tokens);
      EXPECT_NEAR(found[j].score, expected[j].score, kTolerance);
      EXPECT_NEAR(found[j].normalised_score, expected[j].normalised_score, kTolerance);
      EXPECT_EQ(found[j].attention, expected[j].attention);
    }
  }

  void expect_as_searched(const Case& c, const Found& found) {
    ASSERT_EQ(found.size(), c.inputs.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      SCOPED_TRACE("input " + std::to_string(i));
      ReferenceExtras reference(c.logit, c.vocabulary, c.options, c.inputs[i]);
      const std::vector<Hypothesis> expected = reference.search();
      // Two scores that are off by this much each may change places.
      if (reference.closest() <= 2 * kTolerance) continue;
      expect_same(found[i], expected);
      ++compared_;
    }
  }

  /// What holds of all hypotheses, whatever the options.
  static void expect_sound(const Case& c, const Found& found) {
    for (std::size_t i = 0; i < found.size(); ++i) {
      std::set<Tokens> seen;
      double last = std::numeric_limits<double>::infinity();
      for (const Hypothesis& one : found[i]) {
        EXPECT_LE(one.normalised_score, last) << "scores rise";
        last = one.normalised_score;
        EXPECT_TRUE(seen.insert(one.tokens).second) << "a hypothesis stands there twice";
        EXPECT_TRUE(testing::holds_all(one.tokens, c.inputs[i].phrases));
        const Tokens& prefix = c.inputs[i].prefix;
        ASSERT_GE(one.tokens.size(), prefix.size());
        EXPECT_TRUE(std::equal(prefix.begin(), prefix.end(), one.tokens.begin()));
        Tokens before;
        for (const std::int32_t token : one.tokens) {
          before.push_back(token);
          if (before.size() <= prefix.size()) continue;
          EXPECT_FALSE(testing::breaks(c.options.constraints, before));
        }
        EXPECT_NEAR(one.score, score_of(c, c.inputs[i].number, one.tokens), kTolerance);
      }
    }
  }

  std::int64_t compared_ = 0;  // inputs whose outcome rounding doesn't decide

  /// log p of the tokens and eos by the model itself.
  static double score_of(const Case& c, std::int32_t number, const Tokens& tokens) {
    testing::Node node = testing::next_node(testing::first_node(number), data::kBosId);
    double score = 0;
    for (std::size_t t = 0; t <= tokens.size(); ++t) {
      const std::int32_t token = t < tokens.size() ? tokens[t] : data::kEosId;
      score += testing::reference_log_softmax(c.logit, node,
                                              c.vocabulary)[static_cast<std::size_t>(token)];
      node = testing::next_node(node, token);
    }
    return score;
  }
};

SearchOptions short_options(std::int64_t beam, std::int64_t nbest, double penalty) {
  SearchOptions options;
  options.beam = beam;
  options.nbest = nbest;
  options.length_penalty = penalty;
  options.max_length = 9;
  options.max_length_factor = 1;
  options.max_length_offset = 3;
  return options;
}

TEST_P(SearchExtras, FindTheBestOfAllWhenTheBeamIsWide) {
  Case c;
  c.vocabulary = 8;  // four pieces: 4^4 outputs of the greatest length
  c.options = short_options(256, 9, 0.6);
  c.options.max_length_factor = 0;
  c.options.max_length_offset = 4;
  // Tokens of an input's phrases differ, so that no two can overlap.
  c.inputs = {{0, 3, {}, {}}, {1, 2, {}, {{4, 5}}}, {2, 4, {}, {{6}, {7, 7}}}, {3, 1, {5}, {{4}}}};
  for (const std::int64_t no_repeat : {0, 1, 2, 3}) {
    for (const TokenSequences& banned :
         {TokenSequences{}, TokenSequences{{6, 6}}, TokenSequences{{5}, {4, 7}, {7, 6, 4}}}) {
      for (const double coverage : {0.0, 0.4}) {
        SCOPED_TRACE(::testing::Message() << no_repeat << " " << banned.size() << " " << coverage);
        c.options.constraints = {banned, no_repeat};
        c.options.coverage_penalty = coverage;
        const Found found = decode(c);
        expect_sound(c, found);
        for (std::size_t i = 0; i < c.inputs.size(); ++i) {
          SCOPED_TRACE("input " + std::to_string(i));
          // A phrase that may not be written has no outputs, here and there.
          expect_same(found[i],
                      ReferenceExtras(c.logit, c.vocabulary, c.options, c.inputs[i]).exhaustive());
        }
      }
    }
  }
}

// The search may only count on tokens that come one after the other, so outputs that have no such
// room left anywhere are not found; all others are, those with shared tokens among them.
TEST_P(SearchExtras, FindTheBestOfAllWherePhrasesOverlap) {
  Case c;
  c.vocabulary = 8;
  c.options = short_options(1024, 40, 0);
  c.options.max_length_factor = 0;
  c.options.max_length_offset = 5;
  c.inputs = {{0, 3, {}, {{4, 5}, {5, 6}}}, {1, 2, {}, {{4, 5, 4}, {4, 5}}}, {2, 4, {4}, {{4, 4}}}};
  const Found found = decode(c);
  expect_sound(c, found);
  for (std::size_t i = 0; i < c.inputs.size(); ++i) {
    SCOPED_TRACE("input " + std::to_string(i));
    expect_same(found[i],
                ReferenceExtras(c.logit, c.vocabulary, c.options, c.inputs[i]).exhaustive(true));
  }
  const auto shares = [](const Hypothesis& one) { return one.tokens == Tokens{4, 5, 6}; };
  EXPECT_TRUE(std::ranges::any_of(found[0], shares));
}

TEST(WithoutContained, LeavesOutSequencesThatStandInOthers) {
  EXPECT_EQ(without_contained({{5}, {4, 5, 6}, {6, 4}, {5, 6}, {6, 4}, {7}}),
            (TokenSequences{{4, 5, 6}, {6, 4}, {7}}));
  EXPECT_EQ(without_contained({}), TokenSequences{});
}

/// What a random case draws from.
class Draws {
 public:
  explicit Draws(std::uint64_t seed) : engine_(seed) {}

  std::int64_t number(std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(engine_);
  }
  double real(double most) { return std::uniform_real_distribution<double>(0, most)(engine_); }
  bool chance(double p) { return real(1) < p; }
  Tokens pieces(std::int64_t vocabulary, std::int64_t least, std::int64_t most) {
    Tokens tokens(static_cast<std::size_t>(number(least, most)));
    for (auto& token : tokens) token = static_cast<std::int32_t>(number(4, vocabulary - 1));
    return tokens;
  }

 private:
  std::mt19937_64 engine_;
};

TEST_P(SearchExtras, AgreeWithANaiveSearchWhateverIsAsked) {
  const std::uint64_t seed = fresh_seed();
  Draws draws(seed);
  std::int64_t with_answers = 0, asked = 0;
  for (int repeat = 0; repeat < 60; ++repeat) {
    SCOPED_TRACE(::testing::Message() << "SLUICE_TEST_SEED=" << seed << " case " << repeat);
    Case c;
    c.vocabulary = draws.number(6, 40);
    const float bias = static_cast<float>(draws.real(4) - 2),
                scale = 1 + static_cast<float>(draws.real(4));
    c.logit = [=](testing::Node node, std::int64_t token) {
      return scale * testing::unit(node, token) + (token == data::kEosId ? bias : 0.0f);
    };
    SearchOptions& options = c.options;
    const std::int64_t groups = draws.chance(0.4) ? draws.number(2, 4) : 1;
    const std::int64_t beam = groups * draws.number(1, 5);
    options = short_options(beam, draws.number(1, beam), draws.chance(0.5) ? draws.real(2) : 0);
    options.groups = groups;
    options.diversity = draws.real(2);
    options.stop = draws.chance(0.5) ? StopRule::kBestFound : StopRule::kBeamFull;
    options.min_length = draws.number(0, 2);
    options.attention = draws.chance(0.5);
    options.coverage_penalty = draws.chance(0.4) ? draws.real(1) : 0;
    options.constraints.no_repeat = draws.chance(0.5) ? draws.number(1, 3) : 0;
    for (std::int64_t n = draws.chance(0.5) ? draws.number(1, 4) : 0; n > 0; --n) {
      options.constraints.banned.push_back(draws.pieces(c.vocabulary, 1, 3));
    }
    const bool forces = draws.chance(0.5);
    const auto inputs = static_cast<std::int32_t>(draws.number(1, 4));
    for (std::int32_t i = 0; i < inputs; ++i) {
      ReferenceInput input{1000 * repeat + i, draws.number(1, 6)};
      if (draws.chance(0.3)) input.prefix = draws.pieces(c.vocabulary, 1, 2);
      for (std::int64_t n = forces ? draws.number(0, 3) : 0; n > 0; --n) {
        input.phrases.push_back(draws.pieces(c.vocabulary, 1, 3));
      }
      const std::int64_t most = options.max_length_for(input.source_length);
      if (tokens_to_hold(input.phrases, input.prefix) > most) input.phrases.clear();
      c.inputs.push_back(input);
    }
    const Found found = decode(c);
    expect_sound(c, found);
    expect_as_searched(c, found);
    for (const auto& answers : found) with_answers += answers.empty() ? 0 : 1;
    asked += inputs;
    if (HasFailure()) return;
  }
  // Or little would have been compared.
  EXPECT_GT(2 * with_answers, asked);
  EXPECT_GT(2 * compared_, asked);
}

TEST_P(SearchExtras, GroupsGoOnWithDifferentTokens) {
  Case c;
  c.vocabulary = 12;
  c.inputs = {{0, 5}, {1, 3}};
  c.options = short_options(6, 6, 0.5);
  c.options.groups = 3;
  c.options.diversity = 0;  // then all groups are the same search of two beams
  Case alone = c;
  alone.options.beam = alone.options.nbest = 2;
  alone.options.groups = 1;
  const Found same = decode(c), expected = decode(alone);
  for (std::size_t i = 0; i < same.size(); ++i) expect_same(same[i], expected[i]);

  c.options.diversity = 100;
  c.options.min_length = 1;
  for (const auto& answers : decode(c)) {
    std::set<std::int32_t> first;
    for (const Hypothesis& one : answers) first.insert(one.tokens.at(0));
    EXPECT_GE(first.size(), 3u);
  }
}

TEST_P(SearchExtras, GiveNoAnswerWhereNothingIsAllowed) {
  Case c;
  c.vocabulary = 6;
  c.inputs = {{0, 3}, {1, 3, {}, {{4, 4}}}, {2, 3, {}, {{5}}}};
  c.options = short_options(3, 2, 0);
  c.options.constraints.no_repeat = 1;  // so 4 4 can't be written
  const Found found = decode(c);
  EXPECT_FALSE(found[0].empty());
  EXPECT_TRUE(found[1].empty());
  EXPECT_FALSE(found[2].empty());
  // A longer output than there are pieces that may be used.
  c.options.constraints = {{{4}, {5}}, 0};
  c.options.min_length = 1;
  c.inputs = {{0, 3}};
  EXPECT_TRUE(decode(c)[0].empty());
}

TEST_P(SearchExtras, ServeRunsWithAndWithoutForcedWords) {
  Case c;
  c.options = short_options(4, 2, 0.5);
  TableModel model(context_, c.vocabulary, 12, 5, c.logit);
  BeamSearch search(context_, model, c.options, {3, 5, DType::kFloat32, 0, 2, 3});
  const std::vector<std::int32_t> lengths{5, 3, 4};
  const std::vector<TokenSequences> forced{{{4, 5}}, {}, {{6}, {7, 4, 7}}};
  for (int run = 0; run < 2; ++run) {
    for (const bool forces : {false, true}) {
      c.inputs = {{0, 5}, {1, 3}, {2, 4}};
      for (std::size_t i = 0; forces && i < forced.size(); ++i) c.inputs[i].phrases = forced[i];
      expect_as_searched(c, fetch(context_, search.run(context_, lengths, {},
                                                       forces ? Forced(forced) : Forced())));
    }
  }
}

TEST_P(SearchExtras, RefuseWhatNoOutputCanHold) {
  TableModel model(context_, 9, 12, 5, random_logits(1));
  SearchOptions options = short_options(4, 2, 0);
  options.max_length_factor = 0;
  options.max_length_offset = 4;
  BeamSearch search(context_, model, options, {2, 5, DType::kFloat32, 1, 64, 5});
  const std::vector<std::int32_t> lengths{3, 3};
  const auto said = [&](const std::vector<TokenSequences>& forced, Prefixes prefixes = {}) {
    return testing::message_of([&] { search.run(context_, lengths, prefixes, forced); });
  };
  EXPECT_EQ(said({{{4}}, {{4, 5}, {6, 7}}}), "");
  EXPECT_EQ(
      said({{{4}}, {{4, 5}, {6, 7, 4}}}),
      "the forced sequences of input 1 take 5 tokens one after the other; its outputs have at "
      "most 4");
  const std::vector<Tokens> prefixes{{}, {4}};  // begins the first of them
  EXPECT_EQ(said({{{4}}, {{4, 5}, {6, 7}}}, prefixes), "");
  EXPECT_NE(said({{{4}}, {{5, 5}, {6, 7}}}, prefixes).find("take 5 tokens"), std::string::npos);
  EXPECT_NE(said({{{4}}}).find("are given for 2"), std::string::npos);
  EXPECT_NE(said({{{4}}, {{}}}).find("of input 1 is empty"), std::string::npos);
  for (const std::int32_t token : {-1, 0, 2, 3, 9}) {
    EXPECT_NE(said({{}, {{4, token}}}).find("holds token"), std::string::npos) << token;
  }
  EXPECT_NE(said({TokenSequences(65, {4}), {}}).find("at most 64"), std::string::npos);
}

TEST_P(SearchExtras, RefuseOptionsThatContradictEachOther) {
  TableModel model(context_, 9, 12, 5, random_logits(1));
  TableModel language_model(context_, 9, 12, 0, random_logits(1));
  const auto said = [&](const auto& set, models::StepModel& of, std::int64_t source_time) {
    SearchOptions options = short_options(4, 2, 0);
    set(options);
    return testing::message_of([&] { BeamSearch(context_, of, options, {2, source_time}); });
  };
  using O = SearchOptions;
  const auto refusal = [&](const auto& set) { return said(set, model, 5); };
  EXPECT_NE(refusal([](O& o) { o.groups = 3; }).find("beam is 4, which 3 groups"),
            std::string::npos);
  EXPECT_NE(refusal([](O& o) { o.groups = 0; }).find("groups"), std::string::npos);
  EXPECT_NE(refusal([](O& o) { o.diversity = -1; }).find("diversity is -1"), std::string::npos);
  EXPECT_NE(refusal([](O& o) { o.coverage_penalty = -1; }).find("coverage_penalty is -1"),
            std::string::npos);
  EXPECT_NE(refusal([](O& o) { o.constraints.no_repeat = -1; }).find("no_repeat is -1"),
            std::string::npos);
  EXPECT_NE(refusal([](O& o) {
              o.constraints.banned = {{4}, {}};
            }).find("banned sequence 2 is empty"),
            std::string::npos);
  EXPECT_NE(refusal([](O& o) {
              o.constraints.banned = {{4, 9}};
            }).find("holds token 9"),
            std::string::npos);
  EXPECT_NE(refusal([](O& o) { o.constraints.banned = {{data::kEosId}}; }).find("holds token 3"),
            std::string::npos);
  EXPECT_NE(refusal([](O& o) {
              o.without_replacement = {0.0, 1};
            }).find("temperature is 0"),
            std::string::npos);
  EXPECT_NE(refusal([](O& o) {
              o.without_replacement.emplace();
              o.groups = 2;
            }).find("take no groups"),
            std::string::npos);
  EXPECT_NE(refusal([](O& o) {
              o.without_replacement.emplace();
              o.coverage_penalty = 1;
            }).find("take no coverage penalty"),
            std::string::npos);
  EXPECT_NE(said([](O& o) { o.coverage_penalty = 0.5; }, language_model, 0)
                .find("this model attends to no source"),
            std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Devices, SearchExtras, testing::devices(), testing::device_name);

}  // namespace
}  // namespace sluice::decoding
