#include "kernels/optimizer/optimizer.h"

#include <cmath>
#include <limits>

#include "unit/support/on_device.h"
#include "unit/support/temporary_folder.h"

namespace sluice::kernels::optimizer {
namespace {

using base::DType;
using base::dtype_of;
using testing::random_values;
using testing::same_bits;
using testing::widened;

class Optimizer : public testing::OnDevice {
 protected:
  std::mt19937_64 engine_{21};

  Tensor norm_of(const Tensor& gradients) {
    SumOfSquaresArgs args;
    args.gradients = gradients;
    args.partials = poisoned(DType::kFloat64, {partial_count(gradients.size(0))});
    args.sum = poisoned(DType::kFloat64, {1});
    sum_of_squares(context_, args);
    return args.sum;
  }

  template <typename T>
  void check_adam(bool decoupled, double max_norm, double tolerance);
  template <typename T>
  void check_sgd(double momentum, bool nesterov, double max_norm, double tolerance);
};

TEST_P(Optimizer, SumOfSquares) {
  for (const std::int64_t n : {0, 1, 7, 8, 16384, 16385, 50001}) {
    const auto g = random_values<float>(engine_, n);
    double expected = 0;
    for (const double v : widened(g)) expected += v * v;
    // Sums of n positive terms in another order: within n * eps.
    EXPECT_NEAR(get_scalar<double>(norm_of(put(g))), expected, 1e-11 * expected);
  }
}

// The gradients' start moves them off every boundary.
TEST_P(Optimizer, TakesMemoryOfAnyAlignment) {
  const auto g = random_values<float>(engine_, 20000);
  const Tensor p = put(std::vector<float>(20000, 1.0f));
  SgdArgs args;
  args.parameters = p.slice(0, 1, 19998);
  args.gradients = put(g).slice(0, 3, 20000);
  args.learning_rate = put_number(1.0);
  const double sum = get_scalar<double>(norm_of(args.gradients));
  sgd_step(context_, args);
  const auto result = get<float>(p);
  double expected = 0;
  for (std::size_t i = 3; i < g.size(); ++i) {
    expected += static_cast<double>(g[i]) * static_cast<double>(g[i]);
    ASSERT_EQ(result[i - 2], 1.0f - g[i]);
  }
  EXPECT_NEAR(sum, expected, 1e-11 * expected);
  EXPECT_EQ(result[0], 1.0f);
  EXPECT_EQ(result[19998], 1.0f);
}

TEST_P(Optimizer, SumOfSquaresDoesNotDependOnThreads) {
  const Tensor g = put(random_values<float>(engine_, 100001));
  const auto run = [&](int threads) {
    set_threads(threads);
    return get<double>(norm_of(g));
  };
  EXPECT_TRUE(same_bits(run(1), run(3)));
}

/// Gradients of which some chunks have no mark, and are zero.
struct Sparse {
  std::vector<float> values;
  std::vector<std::uint8_t> marks;

  Sparse(std::mt19937_64& engine, std::int64_t n) : values(random_values<float>(engine, n)) {
    for (std::int64_t chunk = 0; chunk < mark_count(n); ++chunk) {
      // Whole blocks of the norm without any, too.
      const bool rare = chunk / 200 % 2 == 1;
      marks.push_back(static_cast<std::uint8_t>(rare ? engine() % 300 == 0 : engine() % 3));
    }
    fill_unmarked(0);
  }
  void fill_unmarked(float value) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (marks[i / kElementsPerMark] == kUnmarked) values[i] = value;
    }
  }
};

// Those without a mark are full of NaN, which nobody may read.
TEST_P(Optimizer, LeavesOutWhatIsNotMarked) {
  for (const std::int64_t n : {1, 127, 128, 130, 20011, 70007}) {
    for (const std::int64_t begin : {0, 16, 112, 131}) {
      if (begin >= n) continue;
      Sparse sparse(engine_, n);
      const Tensor dense = put(sparse.values), marks = put(sparse.marks);
      sparse.fill_unmarked(std::numeric_limits<float>::quiet_NaN());
      const Tensor bare = put(sparse.values);
      const auto sum_of = [&](const Tensor& gradients, const GradientMarks& gradient_marks) {
        SumOfSquaresArgs args;
        args.gradients = gradients;
        args.partials = poisoned(DType::kFloat64, {partial_count(n)});
        args.sum = poisoned(DType::kFloat64, {1});
        args.marks = gradient_marks;
        sum_of_squares(context_, args);
        return args.sum;
      };
      const Tensor sum = sum_of(dense, {});
      EXPECT_TRUE(same_bits(get<double>(sum_of(bare, {marks})), get<double>(sum)));

      const auto start = random_values<float>(engine_, n - begin);
      const auto moments = random_values<float>(engine_, n - begin);
      const auto run = [&](auto args, bool decoupled_or_nesterov, double decay,
                           const Tensor& gradients, const GradientMarks& gradient_marks) {
        args.parameters = put(start);
        args.gradients = gradients.slice(0, begin, n);
        args.marks = gradient_marks;
        args.clipping = {sum, 2.0};
        args.learning_rate = put_number(0.1);
        args.weight_decay = decay;
        const Tensor first = put(moments);
        if constexpr (std::is_same_v<decltype(args), AdamArgs>) {
          args.first_moment = first;
          args.second_moment = put(std::vector<float>(start.size(), 0.25f));
          args.step = put_number(3);
          args.decoupled_decay = decoupled_or_nesterov;
          adam_step(context_, args);
        } else {
          args.momentum_buffer = first;
          args.nesterov = decoupled_or_nesterov;
          sgd_step(context_, args);
        }
        return std::pair(get<float>(args.parameters), get<float>(first));
      };
      const auto check = [&](const auto& args) {
        for (const bool variant : {false, true}) {
          for (const double decay : {0.0, 0.1}) {
            const auto [expected, expected_first] = run(args, variant, decay, dense, {});
            const auto [got, first] = run(args, variant, decay, bare, {marks, begin});
            EXPECT_TRUE(same_bits(got, expected)) << n << " " << begin;
            EXPECT_TRUE(same_bits(first, expected_first)) << n << " " << begin;
          }
        }
      };
      check(AdamArgs{});
      for (const double momentum : {0.0, 0.9}) {
        SgdArgs args;
        args.momentum = momentum;
        check(args);
      }
      release_memory();
    }
  }
}

TEST_P(Optimizer, ZeroesWhatIsMarked) {
  const auto check = [&](auto type, std::int64_t n, std::int64_t offset) {
    using T = decltype(type);
    const Sparse sparse(engine_, n);
    const auto before = random_values<T>(engine_, n + offset + 1);
    const Tensor all = put(before), marks = put(sparse.marks);
    const Tensor gradients = all.slice(0, offset, offset + n);
    zero_gradients(context_, {gradients, {marks}});
    auto expected = before;
    auto expected_marks = sparse.marks;
    for (std::size_t i = 0; i < sparse.values.size(); ++i) {
      if (sparse.marks[i / kElementsPerMark] != kUnmarked) {
        expected[i + static_cast<std::size_t>(offset)] = 0;
      }
    }
    for (std::uint8_t& mark : expected_marks) {
      if (mark == kMarked) mark = kUnmarked;
    }
    EXPECT_EQ(get<T>(all), expected) << n << " " << offset;
    EXPECT_EQ(get<std::uint8_t>(marks), expected_marks) << n << " " << offset;
    zero_gradients(context_, {gradients, {}});
    std::fill(expected.begin() + offset, expected.begin() + offset + n, T{0});
    EXPECT_EQ(get<T>(all), expected);
  };
  for (const std::int64_t n : {1, 127, 128, 129, 4099, 70007}) {
    for (const std::int64_t offset : {0, 1, 4}) {
      check(float{}, n, offset);
      check(double{}, n, offset);
    }
  }
}

TEST_P(Optimizer, RefusesMarksThatDoNotReach) {
  const Tensor g = put(std::vector<float>(300, 1.0f));
  const Tensor marks = put(std::vector<std::uint8_t>(2, kMarked));
  EXPECT_EQ(std::string(testing::error_of([&] {
                          zero_gradients(context_, {g, {marks}});
                        }).what()),
            "zero_gradients: 2 marks of 128 elements each don't reach from element 0 on over 300 "
            "gradients");
  EXPECT_THROW(zero_gradients(context_, {g.slice(0, 0, 100), {marks, 16}}), Error);
  EXPECT_THROW(zero_gradients(context_, {g, {g}}), Error);
  SgdArgs sgd;
  sgd.parameters = sgd.gradients = g.slice(0, 0, 100);
  sgd.learning_rate = put_number(1.0);
  sgd.marks = {marks, 156};
  sgd_step(context_, sgd);
  sgd.marks = {marks, 157};
  EXPECT_THROW(sgd_step(context_, sgd), Error);
}

/// The formulas as torch.optim documents them, in float64.
struct Reference {
  std::vector<double> p, m, v;

  static double clip(const std::vector<double>& g, double max_norm) {
    if (max_norm <= 0) return 1;
    double sum = 0;
    for (const double x : g) sum += x * x;
    return std::fmin(1, max_norm / (std::sqrt(sum) + 1e-6));
  }
  void adam(const std::vector<double>& g, const AdamArgs& a, double max_norm, int step,
            double learning_rate) {
    const double factor = clip(g, max_norm);
    for (std::size_t i = 0; i < p.size(); ++i) {
      double gradient = factor * g[i];
      if (a.decoupled_decay) p[i] -= learning_rate * a.weight_decay * p[i];
      if (!a.decoupled_decay) gradient += a.weight_decay * p[i];
      m[i] = a.beta1 * m[i] + (1 - a.beta1) * gradient;
      v[i] = a.beta2 * v[i] + (1 - a.beta2) * gradient * gradient;
      const double m_hat = m[i] / (1 - std::pow(a.beta1, step));
      const double v_hat = v[i] / (1 - std::pow(a.beta2, step));
      p[i] -= learning_rate * m_hat / (std::sqrt(v_hat) + a.epsilon);
    }
  }
  void sgd(const std::vector<double>& g, const SgdArgs& a, double max_norm, double learning_rate) {
    const double factor = clip(g, max_norm);
    for (std::size_t i = 0; i < p.size(); ++i) {
      const double gradient = factor * g[i] + a.weight_decay * p[i];
      m[i] = a.momentum * m[i] + gradient;
      p[i] -= learning_rate * (a.nesterov ? gradient + a.momentum * m[i] : m[i]);
    }
  }
};

template <typename T>
void Optimizer::check_adam(bool decoupled, double max_norm, double tolerance) {
  const std::int64_t n = 20011;
  const auto start = random_values<T>(engine_, n);
  const std::vector<T> zeros(start.size(), T{0});
  Reference reference{widened(start), widened(zeros), widened(zeros)};
  AdamArgs args;
  args.parameters = put(start);
  args.first_moment = put(zeros);
  args.second_moment = put(zeros);
  args.beta2 = 0.98;
  args.weight_decay = 0.02;
  args.decoupled_decay = decoupled;
  for (int step = 1; step <= 5; ++step) {
    const double learning_rate = 0.01 + 0.001 * step;
    args.step = put_number(step);
    args.learning_rate = put_number(learning_rate);
    const auto g = random_values<T>(engine_, n);
    args.gradients = put(g);
    if (max_norm > 0) args.clipping = {norm_of(args.gradients), max_norm};
    adam_step(context_, args);
    reference.adam(widened(g), args, max_norm, step, learning_rate);
  }
  const auto p = get<T>(args.parameters);
  for (std::size_t i = 0; i < p.size(); ++i) ASSERT_NEAR(p[i], reference.p[i], tolerance);
}

template <typename T>
void Optimizer::check_sgd(double momentum, bool nesterov, double max_norm, double tolerance) {
  const std::int64_t n = 333;
  const auto start = random_values<T>(engine_, n);
  const std::vector<T> zeros(start.size(), T{0});
  Reference reference{widened(start), widened(zeros), {}};
  SgdArgs args;
  args.parameters = put(start);
  if (momentum != 0) args.momentum_buffer = put(zeros);
  const double learning_rate = 0.1;
  args.learning_rate = put_number(learning_rate);
  args.momentum = momentum;
  args.nesterov = nesterov;
  args.weight_decay = 0.01;
  for (int step = 0; step < 4; ++step) {
    const auto g = random_values<T>(engine_, n);
    args.gradients = put(g);
    if (max_norm > 0) args.clipping = {norm_of(args.gradients), max_norm};
    sgd_step(context_, args);
    reference.sgd(widened(g), args, max_norm, learning_rate);
  }
  const auto p = get<T>(args.parameters);
  for (std::size_t i = 0; i < p.size(); ++i) ASSERT_NEAR(p[i], reference.p[i], tolerance);
}

TEST_P(Optimizer, AdamFollowsTheFormula) {
  for (const bool decoupled : {false, true}) {
    // 20011 gradients in [-1, 1) have a norm near 82: 5 clips, 500 doesn't.
    for (const double max_norm : {0.0, 5.0, 500.0}) {
      // Parameters below 2 and 5 steps of 0.01, each with a few roundings of the parameter.
      check_adam<float>(decoupled, max_norm, 2e-6);
      try_float64([&] { check_adam<double>(decoupled, max_norm, 1e-14); });
    }
  }
}

TEST_P(Optimizer, FirstAdamStepByHand) {
  const bool ran = try_float64([&] {
    // m = 0.1 g and v = 0.001 g^2, corrected to g and g^2: a step of the learning rate against g's
    // sign, made smaller by epsilon.
    const Tensor p = put(std::vector<double>{1, 1, 1});
    AdamArgs args;
    args.parameters = p;
    args.gradients = put(std::vector<double>{0.5, -4, 0});
    args.first_moment = put(std::vector<double>{0, 0, 0});
    args.second_moment = put(std::vector<double>{0, 0, 0});
    args.step = put_number(1);
    args.learning_rate = put_number(0.1);
    args.epsilon = 0.5;
    adam_step(context_, args);
    const auto result = get<double>(p);
    EXPECT_NEAR(result[0], 1 - 0.1 * 0.5 / (0.5 + 0.5), 1e-15);
    EXPECT_NEAR(result[1], 1 + 0.1 * 4 / (4 + 0.5), 1e-15);
    EXPECT_EQ(result[2], 1);
    EXPECT_NEAR(get<double>(args.first_moment)[0], 0.05, 1e-16);
    EXPECT_NEAR(get<double>(args.second_moment)[1], 0.016, 1e-16);
  });
  if (!ran) GTEST_SKIP() << "this device takes no float64";
}

TEST_P(Optimizer, SgdFollowsTheFormula) {
  for (const double max_norm : {0.0, 1.0}) {
    check_sgd<float>(0, false, max_norm, 1e-6);
    check_sgd<float>(0.9, false, max_norm, 2e-6);
    try_float64([&] { check_sgd<double>(0.9, true, max_norm, 1e-14); });
  }
}

TEST_P(Optimizer, NonFiniteNormChangesNothing) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    const std::vector<float> start{1, 2, 3}, zeros{0, 0, 0};
    AdamArgs adam;
    adam.parameters = put(start);
    adam.gradients = put(std::vector<float>{1, bad, 1});
    adam.first_moment = put(zeros);
    adam.second_moment = put(zeros);
    adam.step = put_number(1);
    adam.learning_rate = put_number(0.1);
    adam.clipping = {norm_of(adam.gradients), 1.0};
    EXPECT_FALSE(std::isfinite(get_scalar<double>(adam.clipping.sum_of_squares)));
    adam_step(context_, adam);
    SgdArgs sgd;
    sgd.parameters = adam.parameters;
    sgd.gradients = adam.gradients;
    sgd.learning_rate = adam.learning_rate;
    sgd.clipping = {adam.clipping.sum_of_squares, 0};
    sgd_step(context_, sgd);
    EXPECT_EQ(get<float>(adam.parameters), start);
    EXPECT_EQ(get<float>(adam.first_moment), zeros);
    EXPECT_EQ(get<float>(adam.second_moment), zeros);
  }
}

TEST_P(Optimizer, RefusesBadArguments) {
  const Tensor a = poisoned(DType::kFloat32, {8}), b = poisoned(DType::kFloat64, {8});
  AdamArgs adam;
  adam.parameters = adam.gradients = adam.first_moment = adam.second_moment = a;
  adam.step = poisoned(DType::kInt32, {1});
  adam.learning_rate = poisoned(DType::kFloat64, {1});
  AdamArgs bad = adam;
  bad.step = adam.learning_rate;
  EXPECT_THROW(adam_step(context_, bad), Error);
  bad = adam;
  bad.gradients = b;
  EXPECT_THROW(adam_step(context_, bad), Error);
  bad = adam;
  bad.clipping.max_norm = 1;
  EXPECT_THROW(adam_step(context_, bad), Error);
  SgdArgs sgd;
  sgd.parameters = sgd.gradients = a;
  sgd.learning_rate = adam.learning_rate;
  sgd.momentum = 0.9;
  EXPECT_THROW(sgd_step(context_, sgd), Error);
  SumOfSquaresArgs sum;
  sum.gradients = a;
  sum.partials = poisoned(DType::kFloat64, {0});
  sum.sum = poisoned(DType::kFloat64, {1});
  EXPECT_THROW(sum_of_squares(context_, sum), Error);
}

INSTANTIATE_TEST_SUITE_P(Devices, Optimizer, testing::devices(), testing::device_name);

}  // namespace
}  // namespace sluice::kernels::optimizer
