#include "decoding/sampling.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>

#include "decoding/search.h"
#include "sluice/error.h"
#include "unit/decoding/reference_search.h"
#include "unit/decoding/table_model.h"
#include "unit/support/message_of.h"
#include "unit/support/on_device.h"

namespace sluice::decoding {
namespace {

using testing::first_node;
using testing::Logit;
using testing::next_node;
using testing::Node;
using testing::TableModel;
using testing::unit;

using Ids = std::vector<std::int32_t>;
using Found = std::vector<std::vector<Hypothesis>>;

Logit likely_to_end(float bias) {
  return [=](Node node, std::int64_t token) {
    return 3 * unit(node, token) + (token == data::kEosId ? bias : 0.0f);
  };
}

class SamplingSearch : public testing::OnDevice {
 protected:
  static constexpr std::int64_t kVocabulary = 11, kSourceTime = 6;

  Found draw(const SamplingOptions& options, const Ids& lengths, const Ids& ids = {},
             Prefixes prefixes = {}, std::int32_t first_input = 0) {
    const auto inputs = static_cast<std::int64_t>(lengths.size());
    TableModel model(context_, kVocabulary, inputs * options.samples, kSourceTime, logit_);
    model.set_first_input(first_input);
    Sampling sampling(context_, model, options,
                      {inputs, kSourceTime, DType::kFloat32, longest(prefixes)});
    const Found found = fetch(context_, sampling.run(context_, lengths, ids, prefixes));
    steps_ = model.steps();
    return found;
  }

  /// log p of the tokens of a hypothesis, and of eos if it ended.
  double score_of(const Hypothesis& hypothesis, std::int32_t input) const {
    Node node = next_node(first_node(input), data::kBosId);
    double score = 0;
    const auto log_p = [&](std::int32_t token) {
      return testing::reference_log_softmax(logit_, node,
                                            kVocabulary)[static_cast<std::size_t>(token)];
    };
    for (const std::int32_t token : hypothesis.tokens) {
      score += log_p(token);
      node = next_node(node, token);
    }
    return hypothesis.ended ? score + log_p(data::kEosId) : score;
  }

  Logit logit_ = likely_to_end(1);
  std::int64_t steps_ = 0;
};

SamplingOptions short_samples(std::int64_t samples) {
  SamplingOptions options;
  options.samples = samples;
  options.max_length = 8;
  options.max_length_factor = 1;
  options.max_length_offset = 2;
  return options;
}

// A float32 softmax a step is good to about 1e-6.
constexpr double kTolerance = 1e-5;

void expect_identical(const Hypothesis& a, const Hypothesis& b) {
  EXPECT_EQ(a.tokens, b.tokens);
  EXPECT_EQ(a.score, b.score);
  EXPECT_EQ(a.attention, b.attention);
  EXPECT_EQ(a.ended, b.ended);
}

TEST_P(SamplingSearch, ScoresWhatItDraws) {
  SamplingOptions options = short_samples(7);
  options.attention = true;
  options.min_length = 2;
  options.temperature = 1.5;
  const Ids lengths{3, 0, 6};
  const Found found = draw(options, lengths);
  ASSERT_EQ(found.size(), 3u);
  for (std::int32_t i = 0; i < 3; ++i) {
    ASSERT_EQ(found[static_cast<std::size_t>(i)].size(), 7u);
    for (const Hypothesis& sample : found[static_cast<std::size_t>(i)]) {
      const auto length = static_cast<std::int64_t>(sample.tokens.size());
      EXPECT_TRUE(sample.ended);
      EXPECT_GE(length, 2);
      EXPECT_LE(length, options.max_length_for(lengths[static_cast<std::size_t>(i)]));
      EXPECT_NEAR(sample.score, score_of(sample, i), kTolerance);
      EXPECT_EQ(sample.normalised_score, sample.score);
      ASSERT_EQ(sample.attention.size(), sample.tokens.size());
      Node node = next_node(first_node(i), data::kBosId);
      for (std::size_t t = 0; t < sample.tokens.size(); ++t) {
        const auto& looked = sample.attention[t];
        ASSERT_EQ(looked.size(), static_cast<std::size_t>(lengths[static_cast<std::size_t>(i)]));
        for (std::size_t s = 0; s < looked.size(); ++s) {
          EXPECT_EQ(looked[s], testing::table_attention(node, static_cast<std::int64_t>(s)));
        }
        EXPECT_GE(sample.tokens[t], data::kEosId + 1);  // nor unknown
        node = next_node(node, sample.tokens[t]);
      }
    }
  }
}

// Every output there is, with its probability: forbidden tokens leave their share to the others.
TEST_P(SamplingSearch, DrawsOutputsByTheirProbability) {
  SamplingOptions options = short_samples(4000);
  options.max_length = 2;
  options.max_length_offset = 2;
  options.seed = 5;
  std::map<Ids, double> counts;
  const Found found = draw(options, {0});
  for (const Hypothesis& sample : found[0]) ++counts[sample.tokens];
  double statistic = 0, cells = 0, rest_expected = 0, rest_found = 4000, probability = 0;
  const std::function<void(const Ids&, Node, double)> visit = [&](const Ids& tokens, Node node,
                                                                  double p) {
    const auto expect = [&](double q) {
      probability += q;
      const double expected = 4000 * q, drawn = counts[tokens];
      if (expected < 8) {
        rest_expected += expected;
        return;
      }
      statistic += (drawn - expected) * (drawn - expected) / expected;
      rest_found -= drawn;
      ++cells;
    };
    if (tokens.size() == 2) return expect(p);  // eos is all that is allowed
    double total = 0;
    for (std::int32_t v = data::kEosId; v < kVocabulary; ++v) total += std::exp(logit_(node, v));
    expect(p * std::exp(logit_(node, data::kEosId)) / total);
    for (std::int32_t v = data::kEosId + 1; v < kVocabulary; ++v) {
      Ids longer = tokens;
      longer.push_back(v);
      visit(longer, next_node(node, v), p * std::exp(logit_(node, v)) / total);
    }
  };
  visit({}, next_node(first_node(0), data::kBosId), 1);
  EXPECT_NEAR(probability, 1, 1e-6);
  ASSERT_GT(cells, 30);
  statistic +=
      (rest_found - rest_expected) * (rest_found - rest_expected) / std::max(rest_expected, 1.0);
  // Laurent and Massart 2000, lemma 1, at a probability of exp(-14).
  EXPECT_LT(statistic, cells + 2 * std::sqrt(cells * 14) + 28);
}

TEST_P(SamplingSearch, WithoutTemperatureIsGreedySearch) {
  SamplingOptions options = short_samples(2);
  options.temperature = 0;
  const Ids lengths{3, 5, 1};
  const Found found = draw(options, lengths);
  SearchOptions greedy;
  greedy.beam = 1;
  static_cast<LengthLimits&>(greedy) = options;
  TableModel model(context_, kVocabulary, 3, kSourceTime, logit_);
  BeamSearch search(context_, model, greedy, {3, kSourceTime});
  const Found expected = fetch(context_, search.run(context_, lengths));
  for (std::size_t i = 0; i < 3; ++i) {
    for (const Hypothesis& sample : found[i]) expect_identical(sample, expected[i].at(0));
  }
}

// By its id and number: alone or with others, whatever their number, looked at seldom or often.
TEST_P(SamplingSearch, GivesASampleOnItsOwn) {
  SamplingOptions options = short_samples(4);
  options.attention = true;
  const Ids lengths{6, 1, 3, 4};
  options.poll_every = 1;
  const Found together = draw(options, lengths);
  const std::int64_t steps = steps_;
  options.poll_every = 100;
  const Found seldom = draw(options, lengths);
  EXPECT_LT(steps, steps_);  // or the case would not show anything
  options.samples = 2;
  for (std::int32_t i = 0; i < 4; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const Found alone = draw(options, {lengths[at]}, {i}, {}, i);
    for (std::size_t j = 0; j < 2; ++j) expect_identical(alone[0].at(j), together[at].at(j));
    for (std::size_t j = 0; j < 4; ++j) expect_identical(seldom[at].at(j), together[at].at(j));
  }
  options.seed = 2;
  const Found other = draw(options, lengths);
  int same = 0;
  for (std::size_t i = 0; i < 4; ++i) same += other[i][0].tokens == together[i][0].tokens ? 1 : 0;
  EXPECT_LT(same, 4);
}

TEST_P(SamplingSearch, BeginsWithThePrefixOfEachInput) {
  const std::vector<Ids> prefixes{{5, 9, 5}, {}, {7}};
  const SamplingOptions options = short_samples(5);
  const Found found = draw(options, {0, 3, 5}, {}, prefixes), free = draw(options, {0, 3, 5});
  for (std::size_t i = 0; i < 3; ++i) {
    for (const Hypothesis& sample : found[i]) {
      ASSERT_GE(sample.tokens.size(), prefixes[i].size());
      EXPECT_TRUE(std::equal(prefixes[i].begin(), prefixes[i].end(), sample.tokens.begin()));
      EXPECT_NEAR(sample.score, score_of(sample, static_cast<std::int32_t>(i)), kTolerance);
    }
  }
  for (std::size_t j = 0; j < 5; ++j) {
    EXPECT_EQ(found[0][j].tokens, (Ids{5, 9, 5}));  // longer than the two tokens it may have
    expect_identical(found[1][j], free[1][j]);
  }
}

TEST_P(SamplingSearch, CutsWhatNeedNotEnd) {
  logit_ = likely_to_end(-2);
  SamplingOptions options = short_samples(20);
  options.force_end = false;
  options.max_length_factor = 0;
  options.max_length_offset = 4;
  const Found found = draw(options, {3});
  int ended = 0;
  for (const Hypothesis& sample : found[0]) {
    ended += sample.ended ? 1 : 0;
    EXPECT_EQ(sample.tokens.size() == 4 && !sample.ended, !sample.ended);
    EXPECT_NEAR(sample.score, score_of(sample, 0), kTolerance);
  }
  EXPECT_GT(ended, 0);
  EXPECT_LT(ended, 20);
  EXPECT_LE(steps_, 4);  // no step for an eos
}

TEST_P(SamplingSearch, ServesRunsOfDifferentSizes) {
  const SamplingOptions options = short_samples(3);
  TableModel model(context_, kVocabulary, 9, kSourceTime, logit_);
  Sampling sampling(context_, model, options, {3, kSourceTime});
  for (const Ids& lengths : {Ids{6, 2, 5}, Ids{4}, Ids{1, 6}}) {
    const Found found = fetch(context_, sampling.run(context_, lengths));
    const Found expected = draw(options, lengths);
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      for (std::size_t j = 0; j < 3; ++j) expect_identical(found[i].at(j), expected[i].at(j));
    }
  }
  EXPECT_TRUE(fetch(context_, sampling.run(context_, {})).empty());
}

TEST_P(SamplingSearch, NamesTheInputWhoseLogitsAreNotNumbers) {
  const Node broken = next_node(first_node(1), data::kBosId);
  logit_ = [=](Node node, std::int64_t token) {
    return node == broken && token == 5 ? std::numeric_limits<float>::quiet_NaN()
                                        : unit(node, token);
  };
  try {
    draw(short_samples(2), {3, 3});
    FAIL() << "the logits were taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNumeric);
    EXPECT_NE(std::string(error.what()).find("input 1"), std::string::npos) << error.what();
  }
}

TEST_P(SamplingSearch, RefusesWhatDoesNotFit) {
  TableModel model(context_, kVocabulary, 6, kSourceTime, logit_);
  TableModel no_eos(context_, 3, 6, kSourceTime, logit_);
  const SamplingOptions options = short_samples(2);
  EXPECT_THROW(Sampling(context_, model, options, {4, 6}), Error);
  EXPECT_THROW(Sampling(context_, model, options, {0, 6}), Error);
  EXPECT_THROW(Sampling(context_, model, options, {1, 6, DType::kBFloat16}), Error);
  EXPECT_THROW(Sampling(context_, no_eos, options, {1, 6}), Error);
  Sampling sampling(context_, model, options, {2, 6});
  EXPECT_THROW(sampling.run(context_, Ids{1, 2, 3}), Error);
  EXPECT_THROW(sampling.run(context_, Ids{7}), Error);
  EXPECT_THROW(sampling.run(context_, Ids{1}, Ids{1, 2}), Error);
  EXPECT_THROW(sampling.run(context_, Ids{1}, {}, std::vector<Ids>{{5}}), Error);
}

INSTANTIATE_TEST_SUITE_P(Devices, SamplingSearch, testing::devices(), testing::device_name);

TEST(SamplingOptionsTest, NameTheOptionAndItsValue) {
  const auto said = [](auto set) {
    SamplingOptions options;
    set(options);
    return testing::message_of([&] { options.validate(); });
  };
  using Options = SamplingOptions;
  EXPECT_EQ(said([](Options&) {}), "");
  EXPECT_NE(said([](Options& o) { o.samples = 0; }).find("samples is 0"), std::string::npos);
  EXPECT_NE(said([](Options& o) { o.temperature = -0.5; }).find("temperature is -0.5"),
            std::string::npos);
  EXPECT_NE(said([](Options& o) { o.temperature = std::nan(""); }).find("temperature is nan"),
            std::string::npos);
  EXPECT_NE(said([](Options& o) { o.top_k = -2; }).find("top_k is -2"), std::string::npos);
  EXPECT_NE(said([](Options& o) { o.top_p = 0; }).find("top_p is 0"), std::string::npos);
  EXPECT_NE(said([](Options& o) { o.top_p = 1.1; }).find("top_p is 1.1"), std::string::npos);
  EXPECT_NE(said([](Options& o) { o.min_length = 300; }).find("min_length is 300"),
            std::string::npos);
}

}  // namespace
}  // namespace sluice::decoding
