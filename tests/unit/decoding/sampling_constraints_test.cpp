#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "decoding/sampling.h"
#include "sluice/error.h"
#include "unit/decoding/reference_extras.h"
#include "unit/decoding/table_model.h"
#include "unit/support/message_of.h"
#include "unit/support/on_device.h"

namespace sluice::decoding {
namespace {

using testing::Node;
using testing::TableModel;
using testing::Tokens;

constexpr std::int64_t kVocabulary = 9;

float logit_of(Node node, std::int64_t token) {
  return 3 * testing::unit(node, token) + (token == data::kEosId ? 0.5f : 0.0f);
}

/// Whether `token` may follow.
bool allows(const SamplingOptions& options, const Tokens& tokens, std::int32_t token) {
  if (token < data::kEosId) return false;
  if (std::ssize(tokens) == options.max_length) return token == data::kEosId;
  return token == data::kEosId ||
         !testing::breaks(options.constraints, testing::with(tokens, token));
}

class SamplingConstraints : public testing::OnDevice {
 protected:
  std::vector<Hypothesis> draw(const SamplingOptions& options, const Tokens& prefix = {}) {
    TableModel model(context_, kVocabulary, options.samples, 2, logit_of);
    Sampling sampling(context_, model, options, {1, 2, DType::kFloat32, std::ssize(prefix)});
    const std::vector<Tokens> prefixes{prefix};
    return fetch(context_, sampling.run(context_, std::vector<std::int32_t>{2}, {}, prefixes))[0];
  }

  static SamplingOptions options(std::int64_t samples, std::int64_t max_length) {
    SamplingOptions options;
    options.samples = samples;
    options.max_length = options.max_length_offset = max_length;
    options.max_length_factor = 0;
    options.constraints = {{{5}, {6, 4}}, 2};
    return options;
  }
};

// Tokens that may not follow leave their share to the others.
TEST_P(SamplingConstraints, DrawOutputsByTheirProbability) {
  SamplingOptions asked = options(4000, 3);
  asked.seed = 3;
  asked.constraints.no_repeat = 1;
  std::map<Tokens, double> counts;
  for (const Hypothesis& sample : draw(asked)) ++counts[sample.tokens];
  double statistic = 0, cells = 0, rest_expected = 0, rest_found = 4000;
  const auto visit = [&](const auto& self, const Tokens& tokens, Node node, double p) -> void {
    double total = 0;
    for (std::int32_t v = 0; v < kVocabulary; ++v) {
      if (allows(asked, tokens, v)) total += std::exp(logit_of(node, v));
    }
    for (std::int32_t v = data::kEosId; v < kVocabulary; ++v) {
      if (!allows(asked, tokens, v)) continue;
      const double q = p * std::exp(logit_of(node, v)) / total;
      if (v != data::kEosId) {
        self(self, testing::with(tokens, v), testing::next_node(node, v), q);
        continue;
      }
      const double expected = 4000 * q;
      if (expected < 8) {
        rest_expected += expected;
        continue;
      }
      statistic += (counts[tokens] - expected) * (counts[tokens] - expected) / expected;
      rest_found -= counts[tokens];
      ++cells;
    }
  };
  visit(visit, {}, testing::next_node(testing::first_node(0), data::kBosId), 1);
  ASSERT_GT(cells, 20);
  statistic +=
      (rest_found - rest_expected) * (rest_found - rest_expected) / std::max(rest_expected, 1.0);
  // Laurent and Massart 2000, lemma 1, at a probability of exp(-14).
  EXPECT_LT(statistic, cells + 2 * std::sqrt(cells * 14) + 28);
}

TEST_P(SamplingConstraints, HoldWhateverIsDrawn) {
  for (const std::int64_t top_k : {0, 2}) {
    for (const double top_p : {1.0, 0.6}) {
      SamplingOptions asked = options(200, 8);
      asked.top_k = top_k;
      asked.top_p = top_p;
      const Tokens prefix{5, 6, 4};  // is taken all the same
      for (const Hypothesis& sample : draw(asked, prefix)) {
        Tokens before;
        Node node = testing::next_node(testing::first_node(0), data::kBosId);
        double score = 0;
        const auto follow = [&](std::int32_t token) {
          score += testing::reference_log_softmax(logit_of, node,
                                                  kVocabulary)[static_cast<std::size_t>(token)];
          node = testing::next_node(node, token);
        };
        for (const std::int32_t token : sample.tokens) {
          EXPECT_TRUE(before.size() < prefix.size() || allows(asked, before, token));
          before.push_back(token);
          follow(token);
        }
        follow(data::kEosId);
        EXPECT_NEAR(sample.score, score, 2e-5);  // a float32 softmax a step is good to about 1e-6
      }
    }
  }
}

TEST_P(SamplingConstraints, TakeTheMostProbableWithoutTemperature) {
  SamplingOptions asked = options(1, 9);
  asked.temperature = 0;
  Tokens expected;
  Node node = testing::next_node(testing::first_node(0), data::kBosId);
  while (true) {
    std::int32_t best = -1;
    for (std::int32_t v = 0; v < kVocabulary; ++v) {
      if (!allows(asked, expected, v)) continue;
      if (best < 0 || logit_of(node, v) > logit_of(node, best)) best = v;
    }
    if (best == data::kEosId) break;
    expected.push_back(best);
    node = testing::next_node(node, best);
  }
  EXPECT_EQ(draw(asked).at(0).tokens, expected);
}

// A sample that can't go on is none, and those after it stay.
TEST_P(SamplingConstraints, LeaveOutSamplesThatCannotEnd) {
  SamplingOptions asked = options(40, 6);
  asked.constraints = {{{4}, {7}, {8}, {5, 5}}, 0};  // 5 6, 6 and so on are left
  asked.constraints.no_repeat = 1;
  asked.min_length = 2;
  const auto found = draw(asked);
  EXPECT_EQ(found.size(), 40u);
  asked.min_length = 3;  // two pieces, and none may stand there twice
  EXPECT_TRUE(draw(asked).empty());
}

TEST_P(SamplingConstraints, AreNotOfStatesThatContinue) {
  SamplingOptions cut = options(2, 3);
  cut.constraints = {};
  cut.force_end = false;
  TableModel model(context_, kVocabulary, 2, 2, logit_of);
  Sampling first(context_, model, cut, {1, 2});
  const std::vector<std::int32_t> lengths{2};
  first.run(context_, lengths);
  const StreamState state = first.stream_state(context_);
  cut.constraints.no_repeat = 2;
  Sampling second(context_, model, cut, {1, 2});
  EXPECT_NE(testing::message_of([&] {
              second.resume(context_, lengths, state);
            }).find("can't be held to banned words or no_repeat"),
            std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Devices, SamplingConstraints, testing::devices(), testing::device_name);

}  // namespace
}  // namespace sluice::decoding
