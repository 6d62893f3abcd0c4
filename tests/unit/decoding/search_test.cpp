#include "decoding/search.h"

#include <gtest/gtest.h>

#include <limits>

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
using testing::random_logits;
using testing::TableModel;
using testing::unit;

using Found = std::vector<std::vector<Hypothesis>>;

/// A random model whose every token but eos is unlikely to be followed by eos, or likely.
Logit with_eos_bias(float scale, float bias) {
  return [=](Node node, std::int64_t token) {
    return scale * unit(node, token) + (token == data::kEosId ? bias : 0.0f);
  };
}

class Search : public testing::OnDevice {
 protected:
  struct Case {
    std::int64_t vocabulary = 7;
    std::vector<std::int32_t> source_lengths{4};
    Logit logit = random_logits(3);
    std::int32_t first_input = 0;
  };

  Found decode(const Case& c, const SearchOptions& options) {
    const auto inputs = static_cast<std::int64_t>(c.source_lengths.size());
    const std::int32_t source_time =
        *std::max_element(c.source_lengths.begin(), c.source_lengths.end());
    TableModel model(context_, c.vocabulary, inputs * options.beam, source_time, c.logit);
    model.set_first_input(c.first_input);
    BeamSearch search(context_, model, options, {inputs, source_time});
    const SearchResults results = search.run(context_, c.source_lengths);
    const Found found = fetch(context_, results);
    steps_ = model.steps();
    return found;
  }

  Found reference(const Case& c, const SearchOptions& options) {
    Found found;
    for (std::size_t i = 0; i < c.source_lengths.size(); ++i) {
      found.push_back(testing::reference_search(c.logit, c.vocabulary,
                                                c.first_input + static_cast<std::int32_t>(i),
                                                c.source_lengths[i], options));
    }
    return found;
  }

  std::int64_t steps_ = 0;  // of the model in the last decode
};

// The kernel's float32 softmax is good to about 1e-6 a step; ten steps stay below 1e-5.
constexpr double kTolerance = 1e-5;

void expect_same(const std::vector<Hypothesis>& found, const std::vector<Hypothesis>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t j = 0; j < found.size(); ++j) {
    SCOPED_TRACE("hypothesis " + std::to_string(j));
    EXPECT_EQ(found[j].tokens, expected[j].tokens);
    EXPECT_NEAR(found[j].score, expected[j].score, kTolerance);
    EXPECT_NEAR(found[j].normalised_score, expected[j].normalised_score, kTolerance);
    EXPECT_EQ(found[j].attention, expected[j].attention);  // copied, so the same to the bit
  }
}

void expect_same(const Found& found, const Found& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    SCOPED_TRACE("input " + std::to_string(i));
    expect_same(found[i], expected[i]);
  }
}

void expect_identical(const std::vector<Hypothesis>& a, const std::vector<Hypothesis>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t j = 0; j < a.size(); ++j) {
    EXPECT_EQ(a[j].tokens, b[j].tokens);
    EXPECT_EQ(a[j].score, b[j].score);
    EXPECT_EQ(a[j].normalised_score, b[j].normalised_score);
    EXPECT_EQ(a[j].attention, b[j].attention);
  }
}

SearchOptions short_options(std::int64_t beam, std::int64_t nbest, double penalty) {
  SearchOptions options;
  options.beam = beam;
  options.nbest = nbest;
  options.length_penalty = penalty;
  options.max_length = 9;
  options.max_length_factor = 1.5;
  options.max_length_offset = 2;
  return options;
}

TEST_P(Search, FindsTheBestOfAllWhenTheBeamIsWide) {
  Case c;
  c.vocabulary = 7;  // 3 pieces: 3^5 outputs of the greatest length, which is the beam
  c.source_lengths = {5, 2};
  c.logit = with_eos_bias(4, -1);
  for (const double penalty : {0.0, 0.7, 2.0}) {
    SearchOptions options = short_options(243, 12, penalty);
    options.max_length = 5;
    options.max_length_factor = 1;
    options.max_length_offset = 0;
    options.attention = true;
    Found expected;
    for (std::int32_t i = 0; i < 2; ++i) {
      expected.push_back(
          testing::exhaustive_search(c.logit, c.vocabulary, i, c.source_lengths[i], options));
    }
    expect_same(decode(c, options), expected);
  }
}

TEST_P(Search, AgreesWithANaiveSearch) {
  Case c;
  c.source_lengths = {4, 1, 6, 2, 5};
  for (std::int64_t beam = 1; beam <= 8; ++beam) {
    for (const double penalty : {0.0, 0.6, 1.5}) {
      for (const float bias : {-2.0f, 1.5f}) {
        for (const StopRule stop : {StopRule::kBestFound, StopRule::kBeamFull}) {
          SCOPED_TRACE(::testing::Message() << "beam " << beam << " penalty " << penalty << " bias "
                                            << bias << " stop " << static_cast<int>(stop));
          c.vocabulary = 5 + 3 * beam;
          c.first_input = static_cast<std::int32_t>(100 * beam);
          c.logit = with_eos_bias(3, bias);
          SearchOptions options = short_options(beam, (beam + 1) / 2, penalty);
          options.stop = stop;
          options.min_length = beam % 3;
          options.allow_unknown = beam % 2 == 0;
          options.attention = beam % 4 < 2;
          expect_same(decode(c, options), reference(c, options));
        }
      }
    }
  }
}

TEST_P(Search, BreaksTiesByLowerBeamThenLowerToken) {
  Case c;
  c.vocabulary = 9;
  c.source_lengths = {3, 4, 2};
  // Possible or not: every p is 1 / (number of possible tokens), and sums of them meet exactly.
  c.logit = [](Node node, std::int64_t token) {
    return unit(node, token) < 0.5f && token != data::kEosId
               ? -std::numeric_limits<float>::infinity()
               : 0.0f;
  };
  for (std::int64_t beam = 1; beam <= 6; ++beam) {
    SearchOptions options = short_options(beam, beam, 0.5);
    const Found found = decode(c, options), expected = reference(c, options);
    for (std::size_t i = 0; i < found.size(); ++i) {
      ASSERT_EQ(found[i].size(), expected[i].size());
      for (std::size_t j = 0; j < found[i].size(); ++j) {
        EXPECT_EQ(found[i][j].tokens, expected[i][j].tokens) << beam << " " << i << " " << j;
        EXPECT_EQ(found[i][j].score, expected[i][j].score);
      }
    }
  }
}

TEST_P(Search, OfEqualHypothesesTheOneThatFinishedFirstStaysAhead) {
  const Node root = next_node(first_node(0), data::kBosId);
  Case c;
  c.logit = [=](Node node, std::int64_t token) {
    const bool possible = node == root ? token == 4 || token == 6 : token == data::kEosId;
    return possible ? 0.0f : -std::numeric_limits<float>::infinity();
  };
  const Found found = decode(c, short_options(2, 2, 0.5));
  ASSERT_EQ(found[0].size(), 2u);
  EXPECT_EQ(found[0][0].normalised_score, found[0][1].normalised_score);
  EXPECT_EQ(found[0][0].tokens, std::vector<std::int32_t>{4});
  EXPECT_EQ(found[0][1].tokens, std::vector<std::int32_t>{6});
}

TEST_P(Search, GreedyTakesTheLargestUntilEos) {
  Case c;
  c.vocabulary = 11;
  c.source_lengths = {3, 5, 4};
  c.logit = with_eos_bias(2, 0.8f);
  SearchOptions options = short_options(1, 1, 1.0);
  options.allow_unknown = true;
  const Found found = decode(c, options);
  for (std::int32_t i = 0; i < 3; ++i) {
    std::vector<std::int32_t> expected;
    Node node = next_node(first_node(i), data::kBosId);
    while (static_cast<std::int64_t>(expected.size()) <
           options.max_length_for(c.source_lengths[i])) {
      std::int32_t best = data::kUnknownId;
      for (std::int32_t v = data::kEosId; v < c.vocabulary; ++v) {
        if (c.logit(node, v) > c.logit(node, best)) best = v;
      }
      if (best == data::kEosId) break;
      expected.push_back(best);
      node = next_node(node, best);
    }
    ASSERT_EQ(found[i].size(), 1u);
    EXPECT_EQ(found[i][0].tokens, expected);
  }
}

TEST_P(Search, BatchedEqualsSingleToTheBit) {
  Case batch;
  batch.vocabulary = 70;  // blocks and a rest
  batch.source_lengths = {6, 1, 3, 0, 8, 5, 2};
  for (const std::int64_t beam : {1, 3, 8}) {
    SearchOptions options = short_options(beam, std::min<std::int64_t>(beam, 2), 0.8);
    options.attention = true;
    const Found together = decode(batch, options);
    for (std::size_t i = 0; i < batch.source_lengths.size(); ++i) {
      Case alone = batch;
      alone.source_lengths = {batch.source_lengths[i]};
      alone.first_input = static_cast<std::int32_t>(i);
      expect_identical(together[i], decode(alone, options)[0]);
    }
  }
}

TEST_P(Search, LookingSeldomChangesNothing) {
  Case c;
  c.source_lengths = {4, 2, 5};
  c.logit = with_eos_bias(2, 2);
  SearchOptions options = short_options(3, 3, 0.4);
  options.attention = true;
  options.poll_every = 1;
  const Found expected = decode(c, options);
  const std::int64_t steps = steps_;
  for (const std::int64_t every : {3, 8, 100}) {
    options.poll_every = every;
    const Found found = decode(c, options);
    for (std::size_t i = 0; i < found.size(); ++i) expect_identical(found[i], expected[i]);
    EXPECT_GE(steps_, steps);
  }
  EXPECT_LT(steps, steps_);  // or the case would not show anything
}

TEST_P(Search, StopsWhenNothingCanBeGained) {
  Case c;
  c.logit = [](Node, std::int64_t token) { return token == data::kEosId ? 20.0f : 0.0f; };
  SearchOptions options = short_options(4, 1, 0);
  options.max_length = options.max_length_offset = 200;
  options.poll_every = 1;
  const Found found = decode(c, options);
  EXPECT_TRUE(found[0].at(0).tokens.empty());
  EXPECT_NEAR(found[0][0].score, 0, kTolerance);
  EXPECT_EQ(steps_, 1);
}

TEST_P(Search, EndsAtTheMaximumLengthOfEachInput) {
  Case c;
  c.source_lengths = {0, 1, 2, 3};
  c.logit = with_eos_bias(1, -30);
  SearchOptions options = short_options(3, 3, 1.0);
  options.max_length = 5;
  options.max_length_factor = 2;
  options.max_length_offset = 0;
  const Found found = decode(c, options);
  const std::vector<std::size_t> lengths{1, 2, 4, 5};
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    ASSERT_EQ(found[i].size(), 3u);
    for (const Hypothesis& hypothesis : found[i]) {
      EXPECT_EQ(hypothesis.tokens.size(), lengths[i]);
      EXPECT_LT(hypothesis.score, -29);  // eos was forced and is paid for
    }
  }
  expect_same(found, reference(c, options));
}

TEST_P(Search, KeepsTheMinimumLength) {
  Case c;
  c.source_lengths = {1, 3};
  c.logit = with_eos_bias(1, 30);
  SearchOptions options = short_options(2, 2, 0);
  options.min_length = 4;
  const Found found = decode(c, options);
  for (const auto& hypotheses : found) EXPECT_EQ(hypotheses.at(0).tokens.size(), 4u);
  expect_same(found, reference(c, options));
}

TEST_P(Search, BeginsWithThePrefixOfEachInput) {
  const std::vector<std::vector<std::int32_t>> prefixes{{5, 9, 5}, {}, {data::kUnknownId}, {7, 7}};
  const std::vector<std::int32_t> lengths{4, 3, 5, 0};
  for (const std::int64_t beam : {1, 2, 5}) {
    Case c{12, lengths, with_eos_bias(3, 0.5f), 0};
    SearchOptions options = short_options(beam, beam, 0.7);
    options.attention = true;
    options.max_length = 4;
    options.max_length_factor = 0;
    options.max_length_offset = 2;  // the first prefix is longer
    TableModel model(context_, 12, 4 * beam, 5, c.logit);
    BeamSearch search(context_, model, options, {4, 5, DType::kFloat32, 3});
    Found expected;
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      expected.push_back(testing::reference_search(c.logit, 12, static_cast<std::int32_t>(i),
                                                   lengths[i], options, prefixes[i]));
    }
    expect_same(fetch(context_, search.run(context_, lengths, prefixes)), expected);
    // The next run of the same search has none.
    expect_same(fetch(context_, search.run(context_, lengths)), reference(c, options));
  }
}

TEST_P(Search, RefusesPrefixesThatNoOutputCanHave) {
  TableModel model(context_, 12, 10, 6, random_logits(1));
  SearchOptions options = short_options(2, 1, 0);
  options.max_length = 3;
  BeamSearch search(context_, model, options, {2, 6, DType::kFloat32, 4});
  const std::vector<std::int32_t> lengths{3, 3};
  const auto said = [&](const std::vector<std::vector<std::int32_t>>& prefixes) {
    return testing::message_of([&] { search.run(context_, lengths, prefixes); });
  };
  EXPECT_NE(said({{4}}).find("1 prefixes for 2 inputs"), std::string::npos);
  EXPECT_NE(said({{4}, {4, 4, 4, 4}}).find("input 1 has 4 tokens; at most 3"), std::string::npos);
  for (const std::int32_t token : {-1, 0, 2, 3, 12}) {
    EXPECT_NE(said({{4}, {5, token}}).find("holds token"), std::string::npos) << token;
  }
  EXPECT_EQ(said({{4}, {}}), "");
}

TEST_P(Search, TakesMoreBeamsThanThereAreTokens) {
  Case c;
  c.vocabulary = 5;  // one piece
  c.source_lengths = {3};
  SearchOptions options = short_options(8, 8, 0);
  const Found found = decode(c, options);
  EXPECT_EQ(found[0].size(), 7u);  // 0 to 6 times the piece: fewer than asked for
  expect_same(found, reference(c, options));
}

TEST_P(Search, TakesAVocabularyWithoutPieces) {
  Case c;
  c.vocabulary = 4;
  SearchOptions options = short_options(2, 2, 0);
  const Found found = decode(c, options);
  ASSERT_EQ(found[0].size(), 1u);
  EXPECT_TRUE(found[0][0].tokens.empty());
}

TEST_P(Search, ServesRunsOfDifferentSizes) {
  const Logit logit = with_eos_bias(3, -1);
  const SearchOptions options = short_options(3, 2, 0.5);
  TableModel model(context_, 12, 15, 6, logit);
  BeamSearch search(context_, model, options, {5, 6});
  for (const auto& lengths : std::vector<std::vector<std::int32_t>>{{6, 2, 5, 1, 3}, {4}, {1, 6}}) {
    Case c{12, lengths, logit, 0};
    expect_same(fetch(context_, search.run(context_, lengths)), reference(c, options));
  }
  EXPECT_TRUE(fetch(context_, search.run(context_, {})).empty());
}

TEST_P(Search, NamesTheInputWhoseLogitsAreNotNumbers) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    Case c;
    c.source_lengths = {3, 3, 3};
    const Node broken = next_node(first_node(1), data::kBosId);
    c.logit = [=](Node node, std::int64_t token) {
      return node == broken && token == 5 ? bad : unit(node, token);
    };
    try {
      decode(c, short_options(2, 1, 0));
      FAIL() << "the logits were taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kNumeric);
      EXPECT_NE(std::string(error.what()).find("input 1"), std::string::npos) << error.what();
    }
  }
}

TEST_P(Search, RefusesWhatDoesNotFit) {
  const Logit logit = random_logits(1);
  TableModel model(context_, 12, 15, 6, logit);
  TableModel no_eos(context_, 3, 15, 6, logit);
  const SearchOptions options = short_options(3, 2, 0);
  EXPECT_THROW(BeamSearch(context_, model, options, {6, 6}), Error);
  EXPECT_THROW(BeamSearch(context_, model, options, {0, 6}), Error);
  EXPECT_THROW(BeamSearch(context_, model, options, {1, 6, DType::kBFloat16}), Error);
  EXPECT_THROW(BeamSearch(context_, no_eos, options, {1, 6}), Error);
  BeamSearch search(context_, model, options, {2, 6});
  EXPECT_THROW(search.run(context_, std::vector<std::int32_t>{1, 2, 3}), Error);
  EXPECT_THROW(search.run(context_, std::vector<std::int32_t>{7}), Error);
  EXPECT_THROW(search.run(context_, std::vector<std::int32_t>{-1}), Error);
}

INSTANTIATE_TEST_SUITE_P(Devices, Search, testing::devices(), testing::device_name);

}  // namespace
}  // namespace sluice::decoding
