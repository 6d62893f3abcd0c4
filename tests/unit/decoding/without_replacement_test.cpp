#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "decoding/search.h"
#include "unit/decoding/reference_extras.h"
#include "unit/decoding/table_model.h"
#include "unit/support/on_device.h"

namespace sluice::decoding {
namespace {

using testing::Logit;
using testing::Node;
using testing::TableModel;
using testing::Tokens;

using Found = std::vector<std::vector<Hypothesis>>;

/// Every output of input 0 and the probability of drawing it first: products of tempered
/// probabilities of what may follow.
std::map<Tokens, double> all_outputs(const Logit& logit, std::int64_t vocabulary,
                                     const SearchOptions& options, std::int64_t source_length) {
  std::map<Tokens, double> outputs;
  const testing::ReferenceInput input{0, source_length};
  const testing::ReferenceExtras reference(logit, vocabulary, options, input);
  const auto follow = [&](const auto& self, const testing::Prefix& prefix, double p) -> void {
    double sum = 0;
    std::vector<double> weights(static_cast<std::size_t>(vocabulary));
    for (std::int32_t v = 0; v < static_cast<std::int32_t>(vocabulary); ++v) {
      if (!reference.allows(prefix, v)) continue;
      sum += weights[static_cast<std::size_t>(v)] = std::exp(
          static_cast<double>(logit(prefix.node, v)) / options.without_replacement->temperature);
    }
    for (std::int32_t v = 0; v < static_cast<std::int32_t>(vocabulary); ++v) {
      const double q = weights[static_cast<std::size_t>(v)] / sum;
      if (q == 0) continue;
      if (v == data::kEosId) {
        outputs[prefix.tokens] = p * q;
      } else {
        self(self, testing::extended(prefix, v, 0), p * q);
      }
    }
  };
  follow(follow, reference.root(), 1);
  return outputs;
}

class WithoutReplacementSearch : public testing::OnDevice {
 protected:
  static constexpr std::int64_t kVocabulary = 6;  // two pieces

  /// Draws of input 0 with each of the seeds.
  std::vector<std::vector<Hypothesis>> draw(SearchOptions options, const Logit& logit,
                                            std::uint64_t first_seed, std::int64_t seeds) {
    TableModel model(context_, kVocabulary, options.beam, 2, logit);
    BeamSearch search(context_, model, options, {1, 2});
    std::vector<std::vector<Hypothesis>> all;
    for (std::int64_t i = 0; i < seeds; ++i) {
      search.set_seed(first_seed + static_cast<std::uint64_t>(i));
      all.push_back(fetch(context_, search.run(context_, std::vector<std::int32_t>{2}))[0]);
    }
    return all;
  }
};

Logit uneven() {
  return [](Node node, std::int64_t token) { return 2.5f * testing::unit(node, token); };
}

SearchOptions draws_of(std::int64_t count, std::int64_t max_length) {
  SearchOptions options;
  options.beam = options.nbest = count;
  options.max_length = max_length;
  options.max_length_factor = 0;
  options.max_length_offset = max_length;
  options.without_replacement.emplace();
  return options;
}

/// What chi-square with so many degrees of freedom exceeds once in 10^4 (Wilson and Hilferty 1931).
double critical(double freedom) {
  const double part = 2 / (9 * freedom);
  return freedom * std::pow(1 - part + 3.719 * std::sqrt(part), 3);
}

// The first two of three draws, in their order, against p(a) * p(b) / (1 - p(a)), for seeds that
// are always the same: a false alarm would be one for good, and there is none.
TEST_P(WithoutReplacementSearch, DrawsAsOftenAsProbabilitiesSay) {
  for (const std::int64_t no_repeat : {0, 1}) {
    const double temperature = no_repeat == 0 ? 1 : 0.6;
    SCOPED_TRACE(::testing::Message() << temperature << " " << no_repeat);
    SearchOptions options = draws_of(3, 2);
    options.without_replacement->temperature = temperature;
    options.constraints.no_repeat = no_repeat;
    const auto outputs = all_outputs(uneven(), kVocabulary, options, 2);
    ASSERT_EQ(outputs.size(), no_repeat == 0 ? 7u : 5u);

    constexpr std::int64_t kSeeds = 2000;
    std::map<std::pair<Tokens, Tokens>, double> counts;
    double mean_of_best = 0;
    for (const auto& found : draw(options, uneven(), 1000, kSeeds)) {
      ASSERT_EQ(found.size(), 3u);
      EXPECT_NE(found[0].tokens, found[1].tokens);
      EXPECT_NE(found[0].tokens, found[2].tokens);
      EXPECT_NE(found[1].tokens, found[2].tokens);
      EXPECT_GE(found[0].normalised_score, found[1].normalised_score);
      EXPECT_GE(found[1].normalised_score, found[2].normalised_score);
      ++counts[{found[0].tokens, found[1].tokens}];
      mean_of_best += found[0].normalised_score / kSeeds;
    }
    double statistic = 0, freedom = -1;
    for (const auto& [a, p] : outputs) {
      for (const auto& [b, q] : outputs) {
        if (a == b) continue;
        const double expected = kSeeds * p * q / (1 - p);
        const double off = counts[{a, b}] - expected;
        statistic += off * off / expected;
        ++freedom;
      }
    }
    EXPECT_LT(statistic, critical(freedom)) << freedom;
    // The largest of all is log 1 and a Gumbel noise, of mean 0.5772 and deviation 1.2825.
    EXPECT_NEAR(mean_of_best, 0.5772, 4 * 1.2825 / std::sqrt(kSeeds));
  }
}

TEST_P(WithoutReplacementSearch, DrawsAllThereAre) {
  const SearchOptions options = draws_of(20, 3);
  const auto outputs = all_outputs(uneven(), kVocabulary, options, 2);
  ASSERT_EQ(outputs.size(), 15u);
  for (const auto& found : draw(options, uneven(), 5, 3)) {
    std::set<Tokens> seen;
    for (const Hypothesis& one : found) {
      EXPECT_TRUE(outputs.contains(one.tokens));
      EXPECT_TRUE(seen.insert(one.tokens).second);
    }
    EXPECT_EQ(seen.size(), outputs.size());
  }
}

TEST_P(WithoutReplacementSearch, GivesTheModelsOwnScores) {
  SearchOptions options = draws_of(8, 6);
  options.without_replacement->temperature = 2.5;
  for (const auto& found : draw(options, uneven(), 9, 5)) {
    ASSERT_EQ(found.size(), 8u);
    for (const Hypothesis& one : found) {
      Node node = testing::next_node(testing::first_node(0), data::kBosId);
      double score = 0;
      for (std::size_t t = 0; t <= one.tokens.size(); ++t) {
        const std::int32_t token = t < one.tokens.size() ? one.tokens[t] : data::kEosId;
        score += testing::reference_log_softmax(uneven(), node,
                                                kVocabulary)[static_cast<std::size_t>(token)];
        node = testing::next_node(node, token);
      }
      EXPECT_NEAR(one.score, score, 1e-5);  // a float32 softmax a step is good to about 1e-6
    }
  }
}

TEST_P(WithoutReplacementSearch, GivesTheSameWhateverIsInTheBatch) {
  SearchOptions options = draws_of(5, 7);
  options.without_replacement->seed = 77;
  const std::vector<std::int32_t> lengths{2, 1, 2, 0};
  TableModel model(context_, 30, 20, 2, uneven());
  BeamSearch search(context_, model, options, {4, 2});
  const Found together = fetch(context_, search.run(context_, lengths));
  for (std::int32_t i = 0; i < 4; ++i) {
    TableModel one(context_, 30, 5, 2, uneven());
    one.set_first_input(i);
    BeamSearch alone(context_, one, options, {1, 2});
    const std::vector<std::int32_t> length{lengths[static_cast<std::size_t>(i)]}, id{i};
    const auto found = fetch(context_, alone.run(context_, length, {}, {}, id))[0];
    const auto& expected = together[static_cast<std::size_t>(i)];
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t j = 0; j < found.size(); ++j) {
      EXPECT_EQ(found[j].tokens, expected[j].tokens);
      EXPECT_EQ(found[j].score, expected[j].score);
      EXPECT_EQ(found[j].normalised_score, expected[j].normalised_score);
    }
  }
  // Inputs that are the same but for their ids get other numbers.
  TableModel twice(context_, 30, 10, 2, [](Node, std::int64_t token) {
    return token == data::kEosId ? 0.0f : 0.01f * static_cast<float>(token);
  });
  BeamSearch two(context_, twice, options, {2, 2});
  const Found different = fetch(context_, two.run(context_, std::vector<std::int32_t>{2, 2}));
  EXPECT_NE(different[0][0].tokens, different[1][0].tokens);
}

INSTANTIATE_TEST_SUITE_P(Devices, WithoutReplacementSearch, testing::devices(),
                         testing::device_name);

}  // namespace
}  // namespace sluice::decoding
