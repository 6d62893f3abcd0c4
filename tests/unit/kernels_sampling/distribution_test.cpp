#include <set>

#include "unit/kernels_sampling/sampling_case.h"

/// What is drawn, and how often.
namespace sluice::kernels::sampling {
namespace {

using testing::ChiSquare;
using testing::Ids;
using testing::random_values;
using testing::reference_distribution;

class SamplingDistribution : public testing::SamplingTest {};

std::vector<float> coarse_logits(std::mt19937_64& engine, std::int64_t vocabulary) {
  auto logits = random_values<float>(engine, vocabulary, 3);
  for (float& x : logits) x = std::round(x * 8) / 8;  // so that many are equal
  return logits;
}

TEST_P(SamplingDistribution, IsTheSoftmaxUnderATemperature) {
  std::mt19937_64 engine(11);
  for (const std::int64_t vocabulary : {5, 33, 997, 1531}) {
    for (const double temperature : {0.5, 1.0, 2.5}) {
      const auto logits = random_values<float>(engine, vocabulary, 2);
      Rules rules;
      rules.temperature = temperature;
      rules.seed = engine();
      const Ids drawn = draws(logits, vocabulary < 100 ? 20000 : 3000, rules);
      const ChiSquare found(drawn, reference_distribution(logits, rules).q);
      EXPECT_LT(found.statistic, found.bound()) << vocabulary << " " << temperature;
    }
  }
}

TEST_P(SamplingDistribution, IsCutToTopKAndTopP) {
  std::mt19937_64 engine(12);
  for (const std::int64_t vocabulary : {41, 1200}) {
    for (const auto& [top_k, top_p] :
         std::vector<std::pair<int, double>>{{7, 1.0}, {0, 0.6}, {20, 0.8}, {1000000, 0.999}}) {
      const auto logits = coarse_logits(engine, vocabulary);
      Rules rules;
      rules.temperature = 0.8;
      rules.top_k = top_k;
      rules.top_p = top_p;
      rules.seed = engine();
      const Ids drawn = draws(logits, 3000, rules);
      const ChiSquare found(drawn, reference_distribution(logits, rules).q);
      EXPECT_LT(found.statistic, found.bound()) << vocabulary << " " << top_k << " " << top_p;
    }
  }
}

// At so high a temperature all that is left is about as likely, so that all of it shows: 2000 draws
// of at most 60 tokens miss one of them once in 10^12 cases.
TEST_P(SamplingDistribution, KeepsJustTheLargest) {
  std::mt19937_64 engine(13);
  for (const std::int64_t vocabulary : {9, 77, 1100, 4099}) {
    for (const std::int64_t top_k : {1, 2, 7, 60}) {
      if (top_k > vocabulary - 2) continue;
      const auto logits = coarse_logits(engine, vocabulary);
      Rules rules;
      rules.temperature = 1000;
      rules.top_k = top_k;
      const auto expected = reference_distribution(logits, rules).q;
      const Ids drawn = draws(logits, vocabulary < 1000 ? 2000 : 1500, rules);
      const std::set<std::int32_t> found(drawn.begin(), drawn.end());
      for (std::size_t v = 0; v < expected.size(); ++v) {
        EXPECT_EQ(found.contains(static_cast<std::int32_t>(v)), expected[v] > 0)
            << vocabulary << " " << top_k << " " << v;
      }
    }
  }
}

// The fewest tokens that make top_p, of ties the lower: equal logits at a high temperature, so that
// n tokens have n / (V - 2) of the mass.
TEST_P(SamplingDistribution, KeepsJustTheMassAskedFor) {
  for (const std::int64_t vocabulary : {12, 52, 1102}) {
    const auto candidates = static_cast<double>(vocabulary - 2);
    const std::vector<float> logits(static_cast<std::size_t>(vocabulary), -0.0f);
    for (const int kept : {1, 2, 9}) {
      for (const double nudge : {-0.4, 0.0}) {
        Rules rules;
        // 2^-32 less than just enough, for a tenth is no binary fraction.
        rules.top_p = (kept + nudge) / candidates - 0x1p-32;
        const Ids drawn = draws(logits, 400, rules);
        const std::set<std::int32_t> found(drawn.begin(), drawn.end());
        // Ids but pad 0 and bos 2.
        std::set<std::int32_t> expected{1};
        for (std::int32_t v = 3; static_cast<int>(expected.size()) < kept; ++v) expected.insert(v);
        EXPECT_EQ(found, expected) << vocabulary << " " << kept;
      }
    }
  }
}

TEST_P(SamplingDistribution, RandomCutsAreThoseOfTheReference) {
  std::mt19937_64 engine(14);
  int cases = 0;
  for (int i = 0; i < 30; ++i) {
    const std::int64_t vocabulary = 5 + static_cast<std::int64_t>(engine() % 60);
    const auto logits = coarse_logits(engine, vocabulary);
    Rules rules;
    rules.temperature = 0.3 + static_cast<double>(engine() % 100) / 50;
    rules.top_k = static_cast<std::int64_t>(engine() % 12);
    rules.top_p = static_cast<double>(1 + engine() % 100) / 100;
    rules.min_length = static_cast<std::int64_t>(engine() % 2);
    rules.unknown = engine() % 2 == 0 ? 1 : -1;
    const auto expected = reference_distribution(logits, rules);
    if (expected.near_cut) continue;
    ++cases;
    const ChiSquare found(draws(logits, 1500, rules), expected.q);
    EXPECT_LT(found.statistic, found.bound()) << i;
  }
  EXPECT_GT(cases, 20);
}

TEST_P(SamplingDistribution, LowTemperaturesTakeTheLargest) {
  std::mt19937_64 engine(15);
  for (const std::int64_t vocabulary : {30, 1301}) {
    auto logits = random_values<float>(engine, vocabulary, 2);
    logits[7] = logits[9] = 5;
    Rules rules;
    rules.temperature = 0;
    rules.top_p = 0.9;
    EXPECT_EQ(draws(logits, 50, rules), Ids(50, 7));  // of equal ones the lower
    rules.temperature = 1e-300;
    rules.top_p = 1;
    const Ids drawn = draws(logits, 200, rules);
    const auto sevens = std::count(drawn.begin(), drawn.end(), 7);
    EXPECT_EQ(sevens + std::count(drawn.begin(), drawn.end(), 9), 200);
    EXPECT_GT(sevens, 50);  // 100 +- 7
    EXPECT_LT(sevens, 150);
  }
}

TEST_P(SamplingDistribution, HighTemperaturesTakeAnyPossible) {
  std::mt19937_64 engine(16);
  auto logits = random_values<float>(engine, 20, 20);
  logits[5] = testing::kNoLogit;
  Rules rules;
  rules.temperature = 1e12;
  std::vector<double> q(20, 1.0 / 17);
  q[0] = q[2] = q[5] = 0;
  const ChiSquare found(draws(logits, 5000, rules), q);
  EXPECT_LT(found.statistic, found.bound());
}

TEST_P(SamplingDistribution, TakesFloat64) {
  const bool ran = try_float64([&] {
    std::mt19937_64 engine(17);
    for (const std::int64_t vocabulary : {40, 1203}) {
      const auto logits = random_values<double>(engine, vocabulary, 3);
      Rules rules;
      rules.top_k = 15;
      rules.top_p = 0.9;
      const ChiSquare found(draws(logits, 3000, rules), reference_distribution(logits, rules).q);
      EXPECT_LT(found.statistic, found.bound());
    }
  });
  if (!ran) GTEST_SKIP() << "this device takes no float64";
}

// Pairs of draws that differ in one part of their key alone are as pairs of independent ones.
TEST_P(SamplingDistribution, DrawsAreIndependent) {
  constexpr std::int64_t kInputs = 40, kSamples = 60, kSteps = 4, kChoices = 6;
  Rules rules;
  rules.seed = 18;
  rules.min_length = 100;
  rules.unknown = 1;
  const State state = started({kInputs, kSamples, kSteps, 0, 0, false, DType::kFloat32}, rules);
  const std::vector<float> equal(kInputs * kSamples * (4 + kChoices), 1);
  const Tensor logits = put(equal, {kInputs * kSamples, 4 + kChoices});
  for (int step = 0; step < kSteps; ++step) advance(context_, rules, state, logits, Tensor());
  const Ids emitted = get<std::int32_t>(state.emitted);
  const auto at = [&](std::int64_t input, std::int64_t sample, std::int64_t step) {
    return emitted[static_cast<std::size_t>((input * kSamples + sample) * kSteps + step)] - 4;
  };
  std::vector<Ids> pairs(3);
  for (std::int64_t i = 0; i + 1 < kInputs; ++i) {
    for (std::int64_t j = 0; j + 1 < kSamples; ++j) {
      const std::int32_t first = at(i, j, 0) * kChoices;
      pairs[0].push_back(first + at(i + 1, j, 0));
      pairs[1].push_back(first + at(i, j + 1, 0));
      pairs[2].push_back(first + at(i, j, 1));
    }
  }
  const std::vector<double> even(kChoices * kChoices, 1.0 / (kChoices * kChoices));
  for (const Ids& drawn : pairs) {
    const ChiSquare found(drawn, even);
    EXPECT_LT(found.statistic, found.bound());
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, SamplingDistribution, testing::devices(), testing::device_name);

}  // namespace
}  // namespace sluice::kernels::sampling
