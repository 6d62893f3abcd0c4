#include "kernels/sampling/scheduled.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "unit/support/on_device.h"

namespace sluice::kernels::sampling {
namespace {

using Ids = std::vector<std::int32_t>;
using testing::Shape;
using testing::Tensor;

constexpr std::int64_t kTime = 9, kRows = 5, kVocabulary = 77;

class ScheduledInputs : public testing::OnDevice {
 protected:
  ScheduledInputs() {
    std::mt19937_64 random(3);
    tokens_.resize(kTime * kRows);
    for (auto& token : tokens_) token = static_cast<std::int32_t>(kVocabulary + random() % 9);
    logits_ = testing::random_values<float>(random, kTime * kRows * kVocabulary, 3.0);
  }

  // The tokens after a call for steps [first, end) on top of `tokens`.
  template <typename T>
  Ids mix(const Ids& tokens, std::int64_t first, std::int64_t end, double probability,
          std::uint32_t step, const std::vector<T>& logits) {
    ScheduledInputsArgs args;
    args.first_time = first;
    args.time = end - first;
    args.rows = kRows;
    const auto at = [&](std::int64_t t) { return logits.begin() + t * kRows * kVocabulary; };
    args.logits = put(std::vector<T>(at(first), at(end)), {args.time * kRows, kVocabulary});
    args.tokens = put(tokens, {kTime, kRows});
    args.lengths = put(lengths_);
    args.row_ids = put(ids_);
    args.probability = put_number(probability);
    args.draws = draws_;
    args.source = put_key({11, step, 4});
    schedule_inputs(context_, args);
    return get<std::int32_t>(args.tokens);
  }
  Ids mix(double probability, std::uint32_t step = 2) {
    return mix(tokens_, 0, kTime, probability, step, logits_);
  }

  std::int32_t best(std::int64_t t, std::int64_t row) const {
    const float* logits = logits_.data() + (t * kRows + row) * kVocabulary;
    return static_cast<std::int32_t>(std::max_element(logits + 1, logits + kVocabulary) - logits);
  }
  float& logit(std::int64_t t, std::int64_t row, std::int64_t token) {
    return logits_[static_cast<std::size_t>((t * kRows + row) * kVocabulary + token)];
  }
  static std::size_t place(std::int64_t t, std::int64_t row) {
    return static_cast<std::size_t>(t * kRows + row);
  }

  /// By the words of the row's step, over the running sum of exp(logit), in double precision.
  std::int32_t drawn(std::int64_t t, std::int64_t row, std::uint32_t step) const {
    const float* logits = logits_.data() + (t * kRows + row) * kVocabulary;
    double total = 0;
    for (std::int64_t v = 1; v < kVocabulary; ++v) total += std::exp(double{logits[v]});
    const runtime::DropoutKey key{11, step, 4};
    const auto id = static_cast<std::uint32_t>(ids_[static_cast<std::size_t>(row)]);
    const auto fed = static_cast<std::uint32_t>(t + 1);
    const double place = (key.word(id, fed, 2) + key.word(id, fed, 1) * 0x1p-32) * 0x1p-32 * total;
    std::int32_t token = 1;
    for (double sum = std::exp(double{logits[1]}); sum <= place;) {
      sum += std::exp(double{logits[++token]});
    }
    return token;
  }

  bool draws_ = false;
  Ids tokens_;
  std::vector<float> logits_;
  const Ids lengths_{9, 1, 4, 0, 7};
  const Ids ids_{70, 7, 100001, 3, 12};
};

TEST_P(ScheduledInputs, FeedsThePredictionOfTheStepBefore) {
  const Ids fed = mix(1);
  for (std::int64_t t = 0; t < kTime; ++t) {
    for (std::int64_t r = 0; r < kRows; ++r) {
      const bool predicted = t > 0 && t < lengths_[static_cast<std::size_t>(r)];
      EXPECT_EQ(fed[place(t, r)], predicted ? best(t - 1, r) : tokens_[place(t, r)])
          << "step " << t << ", row " << r;
    }
  }
  EXPECT_EQ(mix(0), tokens_);
}

// The coin is that of the token's row id and step, whatever the probability is.
TEST_P(ScheduledInputs, TossesACoinForEachToken) {
  const Ids all = mix(1);
  std::size_t changed = 0;
  for (const double probability : {0.25, 0.5}) {
    const Ids fed = mix(probability, 9);
    for (std::int64_t t = 1; t < kTime; ++t) {
      for (std::int64_t r = 0; r < kRows; ++r) {
        const runtime::DropoutKey key{11, 9, 4};
        const auto id = static_cast<std::uint32_t>(ids_[static_cast<std::size_t>(r)]);
        const bool falls =
            key.word(id, static_cast<std::uint32_t>(t), 0) < probability * std::pow(2.0, 32);
        EXPECT_EQ(fed[place(t, r)], falls ? all[place(t, r)] : tokens_[place(t, r)]);
        changed += fed[place(t, r)] != tokens_[place(t, r)];
      }
    }
  }
  EXPECT_GT(changed, 4u);
  EXPECT_NE(mix(0.5, 9), mix(0.5, 10));
}

TEST_P(ScheduledInputs, IsTheSameInParts) {
  Ids fed = mix(tokens_, 0, 4, 0.7, 5, logits_);
  fed = mix(fed, 4, 5, 0.7, 5, logits_);
  fed = mix(fed, 5, kTime, 0.7, 5, logits_);
  EXPECT_EQ(fed, mix(0.7, 5));
}

TEST_P(ScheduledInputs, OfEqualLogitsTakesTheLowerToken) {
  for (const std::int64_t token : {60, 33, 34, 76}) logit(0, 0, token) = 10;
  EXPECT_EQ(mix(1)[place(1, 0)], 33);
}

TEST_P(ScheduledInputs, NeverTakesPadding) {
  logit(0, 0, 0) = 100;
  EXPECT_EQ(mix(1)[place(1, 0)], best(0, 0));
  EXPECT_NE(best(0, 0), 0);
}

// No draw falls so near to the border between two tokens that weights of 40 bits tell another one.
TEST_P(ScheduledInputs, DrawsByProbability) {
  draws_ = true;
  int unlikely = 0;
  for (const std::uint32_t step : {1U, 2U, 3U}) {
    const Ids fed = mix(1, step);
    for (std::int64_t t = 0; t < kTime; ++t) {
      for (std::int64_t r = 0; r < kRows; ++r) {
        const bool predicted = t > 0 && t < lengths_[static_cast<std::size_t>(r)];
        EXPECT_EQ(fed[place(t, r)], predicted ? drawn(t - 1, r, step) : tokens_[place(t, r)])
            << "step " << t << ", row " << r;
        unlikely += predicted && fed[place(t, r)] != best(t - 1, r) ? 1 : 0;
      }
    }
    EXPECT_EQ(mix(tokens_, 0, kTime, 1, step, testing::widened(logits_)), fed);
  }
  EXPECT_GT(unlikely, 10);
  EXPECT_EQ(mix(0), tokens_);
}

TEST_P(ScheduledInputs, DrawsNoPaddingAndWhatIsCertain) {
  draws_ = true;
  const float infinity = std::numeric_limits<float>::infinity();
  for (std::int64_t v = 1; v < kVocabulary; ++v) {
    logit(0, 0, v) = v == 76 ? 5 : -infinity;
    logit(1, 0, v) = v == 5 ? infinity : 0;
    logit(2, 0, v) = v == 9 || v == 50 ? std::numeric_limits<float>::quiet_NaN() : -infinity;
    logit(3, 0, v) = v == 33 ? 0 : std::numeric_limits<float>::quiet_NaN();
  }
  for (std::int64_t t = 0; t < 4; ++t) logit(t, 0, 0) = 100;
  const Ids fed = mix(1);
  EXPECT_EQ(fed[place(1, 0)], 76);
  EXPECT_EQ(fed[place(2, 0)], 5);
  EXPECT_EQ(fed[place(3, 0)], 1);
  EXPECT_EQ(fed[place(4, 0)], 33);
}

// A step that has diverged is told by its loss; what it is fed must still be a token.
TEST_P(ScheduledInputs, PassesOverNan) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (std::int64_t v = 0; v < kVocabulary; ++v) {
    logit(0, 0, v) = nan;
    if (v != 40 && v != 50) logit(1, 0, v) = nan;
  }
  logit(1, 0, 40) = -2;
  logit(1, 0, 50) = -1;
  const Ids fed = mix(1);
  EXPECT_EQ(fed[place(1, 0)], 1);
  EXPECT_EQ(fed[place(2, 0)], 50);
}

TEST_P(ScheduledInputs, TakesFloat64) {
  EXPECT_EQ(mix(tokens_, 0, kTime, 0.7, 5, testing::widened(logits_)), mix(0.7, 5));
}

TEST_P(ScheduledInputs, RefusesWhatDoesNotFit) {
  ScheduledInputsArgs args;
  args.time = 2;
  args.rows = 3;
  args.logits = put(std::vector<float>(6 * 4), {6, 4});
  args.tokens = put(Ids(6), {2, 3});
  args.lengths = put(Ids(3));
  args.probability = put_number(0.5);
  EXPECT_NO_THROW(schedule_inputs(context_, args));
  ScheduledInputsArgs wrong = args;
  wrong.first_time = 1;
  EXPECT_THROW(schedule_inputs(context_, wrong), Error);
  wrong = args;
  wrong.lengths = put(Ids(2));
  EXPECT_THROW(schedule_inputs(context_, wrong), Error);
  wrong = args;
  wrong.probability = put_number(0.5f);
  EXPECT_THROW(schedule_inputs(context_, wrong), Error);
}

INSTANTIATE_TEST_SUITE_P(Devices, ScheduledInputs, testing::devices(), testing::device_name);

}  // namespace
}  // namespace sluice::kernels::sampling
