#include "layers/initializer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "kernels/recurrent/recurrent.h"
#include "layers/linear.h"
#include "layers/recurrent_stack.h"
#include "sluice/error.h"
#include "unit/support/on_device.h"

namespace sluice::layers {
namespace {

constexpr Initializer kMatrix{0.25, 0, Role::kWeight, 1};
constexpr std::uint64_t kSeed = 7;

std::vector<double> draw_with(Distribution distribution, const Shape& shape,
                              Initializer initializer = kMatrix) {
  return draw<double>(initializer, {distribution, distribution}, "w", shape, kSeed);
}

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}
double variance_of(const std::vector<double>& values) {
  const double mean = mean_of(values);
  double sum = 0;
  for (const double value : values) sum += (value - mean) * (value - mean);
  return sum / static_cast<double>(values.size());
}

TEST(Initializer, KnowsItsNames) {
  for (const char* name : {"uniform", "xavier_uniform", "xavier_normal", "orthogonal"}) {
    EXPECT_EQ(name_of(parse_distribution(name)), name);
  }
  try {
    parse_distribution("xavier");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("xavier_uniform, xavier_normal"), std::string::npos);
  }
}

// Runs made before there was a choice start from the same bits: three numbers of theirs.
TEST(Initializer, UniformIsWhatItAlwaysWas) {
  const std::vector<float> values = draw<float>({0.25, 0}, {}, "encoder.weight_ih_l0", {3, 5}, 1);
  EXPECT_EQ(values, draw<float>({0.25, 0, Role::kRecurrentWeight, 3}, {}, "encoder.weight_ih_l0",
                                {3, 5}, 1));
  EXPECT_EQ(values[0], -0x1.74d9700000000p-3f);
  EXPECT_EQ(values[6], -0x1.744bca0000000p-4f);
  EXPECT_EQ(values[14], 0x1.06e12e0000000p-4f);
}

TEST(Initializer, ConstantsAreExact) {
  EXPECT_EQ(draw<float>({0, 1}, {}, "gain", {4}, kSeed), std::vector<float>(4, 1.0f));
}

// Of 60000 numbers: the mean errs by sigma / 245, the variance by a factor of 1 + 0.9 / 245 (of a
// uniform distribution) or 1 + 1.5 / 245 (of a normal one); five times that.
TEST(Initializer, XavierHasItsVariance) {
  const Shape shape{300, 200};
  const double want = 2.0 / (300 + 200);
  const auto uniform = draw_with(Distribution::kXavierUniform, shape);
  const auto normal = draw_with(Distribution::kXavierNormal, shape);
  for (const auto& values : {uniform, normal}) {
    EXPECT_NEAR(mean_of(values), 0, 5 * std::sqrt(want) / 245);
    EXPECT_NEAR(variance_of(values), want, 5 * 1.5 / 245 * want);
  }
  const double bound = std::sqrt(6.0 / (300 + 200));
  std::size_t beyond = 0;
  for (const double value : uniform) EXPECT_LE(std::abs(value), bound);
  // A normal number is beyond 1.73 sigma with a probability of 0.083.
  for (const double value : normal) beyond += std::abs(value) > bound ? 1 : 0;
  EXPECT_NEAR(static_cast<double>(beyond) / 60000, 0.0833, 0.006);
}

// Fans are those of a gate's matrix.
TEST(Initializer, XavierTakesEachGateForItself) {
  Initializer gates = kMatrix;
  gates.gates = 4;
  const double want = 2.0 / (100 + 200);
  EXPECT_NEAR(variance_of(draw_with(Distribution::kXavierNormal, {400, 200}, gates)), want,
              0.05 * want);
}

class Orthogonal : public ::testing::TestWithParam<std::pair<std::int64_t, std::int64_t>> {};
INSTANTIATE_TEST_SUITE_P(, Orthogonal,
                         ::testing::Values(std::pair{1, 1}, std::pair{1, 7}, std::pair{9, 1},
                                           std::pair{33, 33}, std::pair{20, 51}, std::pair{70, 31}),
                         [](const auto& size) {
                           return std::to_string(size.param.first) + "x" +
                                  std::to_string(size.param.second);
                         });

// In double the products err by some 1e-16 times the condition of a random matrix, which is about
// its width.
TEST_P(Orthogonal, HasOrthonormalRowsOrColumnsInEachGate) {
  const auto [rows, columns] = GetParam();
  Initializer gates = kMatrix;
  gates.gates = 3;
  const auto values = draw_with(Distribution::kOrthogonal, {3 * rows, columns}, gates);
  const bool by_rows = rows <= columns;
  const std::int64_t count = std::min(rows, columns), length = std::max(rows, columns);
  for (std::int64_t gate = 0; gate < 3; ++gate) {
    const auto at = [&](std::int64_t vector, std::int64_t i) {
      const std::int64_t row = by_rows ? vector : i, column = by_rows ? i : vector;
      return values[static_cast<std::size_t>((gate * rows + row) * columns + column)];
    };
    for (std::int64_t a = 0; a < count; ++a) {
      for (std::int64_t b = 0; b <= a; ++b) {
        double product = 0;
        for (std::int64_t i = 0; i < length; ++i) product += at(a, i) * at(b, i);
        EXPECT_NEAR(product, a == b ? 1 : 0, 1e-12) << gate << ' ' << a << ' ' << b;
      }
    }
  }
  if (rows * columns == 1) return;
  EXPECT_NE(values[0], values[static_cast<std::size_t>(rows * columns)]) << "gates are alike";
}

// A random rotation has no preferred direction: entries have mean 0 and variance 1 / n.
TEST(Initializer, OrthogonalIsUniformlyDistributed) {
  const auto values = draw_with(Distribution::kOrthogonal, {120, 120});
  EXPECT_NEAR(mean_of(values), 0, 5 / (120 * std::sqrt(120.0)));
  double trace = 0;
  for (std::size_t i = 0; i < 120; ++i) trace += values[i * 121];
  EXPECT_LT(std::abs(trace), 5);  // normal with variance 1; of a matrix near the identity 120
}

class InitializedLayers : public ::testing::TestWithParam<const char*> {
 protected:
  std::vector<float> values_of(const Parameters& parameters, std::string_view name) {
    for (ParameterId id = 0; id < parameters.specs().size(); ++id) {
      if (parameters.specs()[id].name == name) return parameters.download<float>(context_, id);
    }
    ADD_FAILURE() << name;
    return {};
  }

  const std::unique_ptr<runtime::Device> device_ = runtime::open_device(GetParam());
  const Context context_{*device_};
};
INSTANTIATE_TEST_SUITE_P(, InitializedLayers, sluice::testing::devices(),
                         sluice::testing::device_name);

TEST_P(InitializedLayers, TakeWhatIsChosenForTheirRoles) {
  kernels::recurrent::Descriptor d;
  d.input = 6;
  d.hidden = 8;
  Parameters parameters;
  const RecurrentStack stack(parameters, "rnn", d);
  const Linear linear(parameters, "out", 8, 5);
  parameters.allocate(context_, DType::kFloat32, false);
  parameters.initialize(context_, kSeed);
  const auto bias = values_of(parameters, "rnn.bias_ih_l0");
  const auto other_bias = values_of(parameters, "rnn.bias_hh_l0");
  const auto input = values_of(parameters, "rnn.weight_ih_l0");
  const auto linear_weight = values_of(parameters, "out.weight");

  parameters.initialize(
      context_, kSeed,
      {Distribution::kXavierUniform, Distribution::kOrthogonal, {-0.5, 1.5, 0, 0}});
  const auto shifted = values_of(parameters, "rnn.bias_ih_l0");
  for (std::size_t i = 0; i < bias.size(); ++i) {
    const double added = i < 8 ? -0.5 : i < 16 ? 1.5 : 0;
    EXPECT_EQ(shifted[i], static_cast<float>(bias[i] + added)) << i;
  }
  EXPECT_EQ(values_of(parameters, "rnn.bias_hh_l0"), other_bias);
  EXPECT_NE(values_of(parameters, "rnn.weight_ih_l0"), input);
  EXPECT_NE(values_of(parameters, "out.weight"), linear_weight);
  const auto recurrent = values_of(parameters, "rnn.weight_hh_l0");
  double norm = 0;
  for (std::size_t i = 0; i < 8; ++i) norm += recurrent[i] * recurrent[i];
  EXPECT_NEAR(norm, 1, 1e-6);
}

}  // namespace
}  // namespace sluice::layers
