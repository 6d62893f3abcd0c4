#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "unit/kernels_recurrent/leaf_case.h"

namespace sluice::kernels::recurrent::cpu {
namespace {

template <typename T>
class LeafActivations : public LeafTest<T> {};
TYPED_TEST_SUITE(LeafActivations, LeafTypes);

/// Sigmoid and tanh of every x of a list, by steps without a recurrent product: the gates are
/// saved.
template <typename T>
std::pair<std::vector<float>, std::vector<float>> activations(const Leaf<T>& leaf,
                                                              const std::vector<float>& x) {
  const auto rows = static_cast<std::int64_t>(x.size()) / kPanel;
  std::vector<float> pre(x.size() * 4), saved(x.size() * 4), c(x.size());
  for (std::size_t i = 0; i < pre.size(); ++i) pre[i] = x[i / 64 * 16 + i % 16];
  std::vector<T> h(x.size());
  StepArgs<T> step{};
  step.row_end = rows;
  step.panel_end = 1;
  step.units = kPanel;
  step.h_prev = h.data();
  step.pre = pre.data();
  step.c_prev = step.c_next = c.data();
  step.h_next = step.y = h.data();
  step.h_next_stride = step.y_stride = kPanel;
  step.saved = saved.data();
  leaf.lstm.forward(step);
  std::pair<std::vector<float>, std::vector<float>> out;
  for (std::size_t i = 0; i < x.size(); ++i) {
    out.first.push_back(saved[i / 16 * 64 + i % 16]);
    out.second.push_back(saved[i / 16 * 64 + 32 + i % 16]);
  }
  return out;
}

double units_off(float value, double exact) {
  int exponent;
  std::frexp(exact, &exponent);
  return std::abs(value - exact) / std::ldexp(1.0, std::max(exponent, -125) - 24);
}

TYPED_TEST(LeafActivations, ActivationsAreAccurate) {
  using T = TypeParam;
  std::vector<float> x;
  for (std::uint64_t bits = 0; bits <= 0xffffffffu; bits += 0x5001) {
    const float value = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    if (std::isfinite(value)) x.push_back(value);
  }
  for (int i = -100000; i < 100000; ++i) x.push_back(static_cast<float>(i) * 1e-4f);
  x.resize(x.size() / kPanel * kPanel);
  for (const auto& [name, leaf, same_bits] : leaves<T>()) {
    const auto [sigmoids, tanhs] = activations(*leaf, x);
    const bool fast = std::is_same_v<T, BFloat16> && name != "portable";
    double worst_sigmoid = 0, worst_tanh = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double exact_tanh = std::tanh(static_cast<double>(x[i]));
      worst_tanh = std::max(worst_tanh, fast ? std::abs(tanhs[i] - exact_tanh) / kFastTanh
                                             : units_off(tanhs[i], exact_tanh) / 3);
      const double exact = sigmoid(x[i]);
      if (x[i] > -87) {
        worst_sigmoid = std::max(worst_sigmoid, units_off(sigmoids[i], exact));
      } else {
        ASSERT_NEAR(sigmoids[i], exact, 1.7e-38) << name << ' ' << x[i];
      }
    }
    // Three units in the last place, or what is stated.
    EXPECT_LT(worst_sigmoid * kUnit, fast ? kFastSigmoid : 3 * kUnit) << name;
    EXPECT_LT(worst_tanh, 1) << name;
    this->RecordProperty("worst_" + name,
                         std::to_string(worst_sigmoid) + " " + std::to_string(worst_tanh));
  }
}

TYPED_TEST(LeafActivations, ActivationsOfWhatIsNoNumber) {
  using T = TypeParam;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::vector<float> x(kPanel);
  x[0] = kInfinity;
  x[1] = -kInfinity;
  x[2] = std::numeric_limits<float>::quiet_NaN();
  x[3] = -0.0f;
  for (const auto& [name, leaf, same_bits] : leaves<T>()) {
    SCOPED_TRACE(name);
    const auto [sigmoids, tanhs] = activations(*leaf, x);
    EXPECT_EQ(sigmoids[0], 1);
    EXPECT_NEAR(sigmoids[1], 0, 1.7e-38);
    EXPECT_TRUE(std::isnan(sigmoids[2]));
    EXPECT_EQ(tanhs[0], 1);
    EXPECT_EQ(tanhs[1], -1);
    EXPECT_TRUE(std::isnan(tanhs[2]));
    EXPECT_TRUE(std::signbit(tanhs[3]));
    EXPECT_EQ(sigmoids[3], 0.5f);
  }
}

}  // namespace
}  // namespace sluice::kernels::recurrent::cpu
