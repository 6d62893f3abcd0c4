#include "kernels/attention_decoder/cpu/attention_leaf.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace sluice::kernels::attention_decoder::cpu {
namespace {

struct Named {
  std::string name;
  const AttentionLeaf<float>* leaf;
};

std::vector<Named> leaves() {
  std::vector<Named> all{{"portable", &portable_attention_leaf<float>()}};
  if (const auto* leaf = avx2_attention_leaf()) all.push_back({"avx2", leaf});
  if (const auto* leaf = avx512_attention_leaf()) all.push_back({"avx512", leaf});
  return all;
}

TEST(AttentionLeaf, TanhIsGoodToFourUnitsInTheLastPlace) {
  std::vector<float> in;
  for (float x = 1e-30f; x < 100.0f; x *= 1.0003f) {
    in.push_back(x);
    in.push_back(-x);
  }
  for (const float x : {0.0f, -0.0f, 3e38f, -3e38f}) in.push_back(x);
  const std::size_t count = in.size();
  in.resize((count + 15) / 16 * 16);
  for (const Named& named : leaves()) {
    std::vector<float> out(in.size(), -7.0f);
    named.leaf->tanh(static_cast<std::int64_t>(count), in.data(), out.data());
    for (std::size_t i = 0; i < count; ++i) {
      const double want = std::tanh(static_cast<double>(in[i]));
      // The polynomial, the sum with 2^n - 1, the sum with 2 and the division round once each.
      ASSERT_NEAR(out[i], want, std::abs(want) * 4 * 0x1p-24) << named.name << " at " << in[i];
      ASSERT_EQ(std::signbit(out[i]), std::signbit(in[i])) << named.name << " at " << in[i];
    }
    for (std::size_t i = count; i < out.size(); ++i) ASSERT_EQ(out[i], -7.0f);
  }
}

TEST(AttentionLeaf, TanhKeepsNaN) {
  std::vector<float> in(16, std::numeric_limits<float>::quiet_NaN()), out(16, 0.0f);
  for (const Named& named : leaves()) {
    named.leaf->tanh(16, in.data(), out.data());
    for (const float v : out) EXPECT_TRUE(std::isnan(v)) << named.name;
  }
}

/// Scores far apart: the softmax must neither overflow nor lose its sum.
TEST(AttentionLeaf, SoftmaxOfLargeScores) {
  constexpr std::int64_t kTime = 21, kLength = 19, kWidth = 16;
  std::vector<float> keys(kTime * kWidth, 0.0f), values(kTime * kWidth, 1.0f);
  std::vector<float> query(kWidth, 0.0f), alpha(kTime, -1.0f), context(kWidth, -1.0f);
  query[0] = 100.0f;
  for (std::int64_t s = 0; s < kTime; ++s) keys[s * kWidth] = static_cast<float>(s) - 9.0f;
  for (const Named& named : leaves()) {
    named.leaf->attend({kTime, kLength, kWidth, kWidth, 5, keys.data(), values.data(), query.data(),
                        nullptr, alpha.data(), context.data()});
    EXPECT_NEAR(alpha[kLength - 1], 1.0f, 1e-6f) << named.name;
    for (std::int64_t s = 0; s + 1 < kLength; ++s) EXPECT_LT(alpha[s], 1e-30f) << named.name;
    for (std::int64_t s = kLength; s < kTime; ++s) EXPECT_EQ(alpha[s], 0.0f) << named.name;
    for (int i = 0; i < 5; ++i) EXPECT_NEAR(context[i], 1.0f, 1e-6f) << named.name;
    EXPECT_EQ(context[5], -1.0f) << named.name;
  }
}

}  // namespace
}  // namespace sluice::kernels::attention_decoder::cpu
