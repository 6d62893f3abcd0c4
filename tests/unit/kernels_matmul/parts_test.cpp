#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/matmul/matmul.h"
#include "unit/support/on_device.h"

// Products of float32 that are large enough to go by parts of bfloat16 where a GPU does that.
namespace sluice::kernels::matmul {
namespace {

using base::DType;
using base::Shape;
using testing::random_values;

enum class Numbers { kSigned, kPositive, kHeavyTailed };

struct Case {
  std::int64_t m, n, k;
  bool transpose_a = false, transpose_b = false;
  double alpha = 1, beta = 0;
  bool bias = false;
  std::int64_t gap = 0;  ///< elements between rows
};

/// A matrix on the host, with gaps between its rows.
struct Matrix {
  std::vector<float> values;
  std::int64_t stride = 0;
  bool transposed = false;

  float& at(std::int64_t row, std::int64_t column) {
    return values[static_cast<std::size_t>(transposed ? column * stride + row
                                                      : row * stride + column)];
  }
};

class Parts : public testing::OnDevice {
 protected:
  struct Product {
    Case sizes;
    Matrix a, b, c;
    std::vector<float> bias;
    MatmulArgs args;
    Tensor whole_c;
  };

  Matrix draw(std::int64_t rows, std::int64_t columns, bool transposed, std::int64_t gap,
              Numbers kind) {
    const std::int64_t stride = (transposed ? rows : columns) + gap;
    Matrix made{random_values<float>(engine_, (transposed ? columns : rows) * stride), stride,
                transposed};
    for (float& value : made.values) {
      if (kind == Numbers::kPositive) value = std::abs(value);
      if (kind == Numbers::kHeavyTailed) value *= std::exp(12 * value);
    }
    return made;
  }

  Product make(const Case& k, Numbers kind = Numbers::kSigned) {
    Product p{k,
              draw(k.m, k.k, k.transpose_a, k.gap, kind),
              draw(k.k, k.n, k.transpose_b, k.gap, kind),
              draw(k.m, k.n, false, k.gap, kind),
              {},
              {},
              {}};
    if (k.bias) p.bias = random_values<float>(engine_, k.n);
    return p;
  }

  /// The arguments of a product whose numbers will not change on the host any more.
  void put_operands(Product& p) {
    const Case& k = p.sizes;
    const auto tensor = [&](const Matrix& matrix) {
      const std::int64_t rows = std::ssize(matrix.values) / matrix.stride;
      return put(matrix.values, Shape{rows, matrix.stride}).slice(1, 0, matrix.stride - k.gap);
    };
    p.args.a = tensor(p.a);
    p.args.b = tensor(p.b);
    put_c(p);
    p.args.transpose_a = k.transpose_a;
    p.args.transpose_b = k.transpose_b;
    p.args.alpha = k.alpha;
    p.args.beta = k.beta;
    if (k.bias) p.args.bias = put(p.bias);
  }

  void put_c(Product& p) {
    const Shape shape{p.sizes.m, p.sizes.n + p.sizes.gap};
    p.whole_c = p.sizes.beta == 0 ? poisoned(DType::kFloat32, shape) : put(p.c.values, shape);
    p.args.c = p.whole_c.slice(1, 0, p.sizes.n);
  }

  /// Element (i, j) in float64, and what the sizes of all its terms come to.
  struct Expected {
    double value, size;
  };
  Expected expected_at(Product& p, std::int64_t i, std::int64_t j) {
    double sum = 0, size = 0;
    for (std::int64_t q = 0; q < p.sizes.k; ++q) {
      const double term = static_cast<double>(p.a.at(i, q)) * static_cast<double>(p.b.at(q, j));
      sum += term;
      size += std::abs(term);
    }
    const double before = p.sizes.beta == 0 ? 0 : p.sizes.beta * double{p.c.at(i, j)};
    const double bias = p.sizes.bias ? p.bias[static_cast<std::size_t>(j)] : 0;
    return {p.sizes.alpha * sum + before + bias,
            std::abs(p.sizes.alpha) * size + std::abs(before) + std::abs(bias)};
  }

  /// Some rows, the first and last among them.
  std::vector<std::int64_t> some_rows(std::int64_t m) {
    std::vector<std::int64_t> rows{0, m - 1};
    for (int i = 0; i < 6; ++i) rows.push_back(static_cast<std::int64_t>(engine_() % m));
    return rows;
  }

  void check(const Case& k) {
    SCOPED_TRACE(::testing::Message() << k.m << " x " << k.n << " x " << k.k);
    Product p = make(k);
    put_operands(p);
    matmul(context_, p.args);
    const auto result = get<float>(p.whole_c);
    const std::int64_t stride = k.n + k.gap;
    const auto at = [&](std::int64_t i, std::int64_t j) {
      return result[static_cast<std::size_t>(i * stride + j)];
    };
    // What float32 promises: each of k additions, and three more, rounds by at most 2^-24 of all
    // terms' sizes.
    const double bound = static_cast<double>(k.k + 3) * 0x1p-24;
    for (const std::int64_t i : some_rows(k.m)) {
      for (std::int64_t j = 0; j < k.n; ++j) {
        const Expected expected = expected_at(p, i, j);
        ASSERT_NEAR(at(i, j), expected.value, bound * expected.size) << i << ", " << j;
      }
    }
    for (std::int64_t i = 0; i < k.m; ++i) {
      for (std::int64_t j = 0; j < k.n; ++j) ASSERT_TRUE(std::isfinite(at(i, j)));
      for (std::int64_t j = k.n; j < stride; ++j) {  // the gap between rows is untouched
        ASSERT_TRUE(k.beta == 0 ? std::isnan(at(i, j)) : at(i, j) == p.c.at(i, j));
      }
    }
    put_c(p);
    matmul(context_, p.args);
    EXPECT_TRUE(testing::same_bits(get<float>(p.whole_c), result));
  }

  /// Of some rows: the largest and the root mean square error, as shares of the terms' sizes.
  struct Errors {
    double largest = 0, root_mean_square = 0;
  };
  Errors errors_of(Product& p, const std::vector<std::int64_t>& rows,
                   const std::vector<float>& result) {
    Errors errors;
    double squares = 0;
    for (const std::int64_t i : rows) {
      for (std::int64_t j = 0; j < p.sizes.n; ++j) {
        const Expected expected = expected_at(p, i, j);
        const double value = result[static_cast<std::size_t>(i * p.sizes.n + j)];
        const double error = std::abs(value - expected.value) / expected.size;
        errors.largest = std::max(errors.largest, error);
        squares += error * error;
      }
    }
    errors.root_mean_square =
        std::sqrt(squares / static_cast<double>(std::ssize(rows) * p.sizes.n));
    return errors;
  }
  /// Those rows of c, each number a sum in float32 from the first term to the last.
  std::vector<float> plain_product(Product& p, const std::vector<std::int64_t>& rows) {
    std::vector<float> c(static_cast<std::size_t>(p.sizes.m * p.sizes.n));
    for (const std::int64_t i : rows) {
      for (std::int64_t j = 0; j < p.sizes.n; ++j) {
        float sum = 0;
        for (std::int64_t q = 0; q < p.sizes.k; ++q)
          sum = std::fma(p.a.at(i, q), p.b.at(q, j), sum);
        c[static_cast<std::size_t>(i * p.sizes.n + j)] = sum;
      }
    }
    return c;
  }

  std::mt19937_64 engine_{29};
};

TEST_P(Parts, OddSizesOfAllOrders) {
  for (const bool a : {false, true}) {
    for (const bool b : {false, true}) check({1501, 1777, 611, a, b, 0.75, -0.5, true, 1});
  }
  check({1500, 1777, 1024, false, false, 1, 0, true, 0});
}

/// Some of the smallest that go by parts, for compute-sanitizer: a stage of the depth, read in
/// pairs and number by number, and blocks that share the depth of a tile.
TEST_P(Parts, SmallestOnes) {
  for (const bool a : {false, true}) {
    for (const bool b : {false, true}) check({380, 391, 60, a, b, 0.75, -0.5, true, 4});
  }
  check({1101, 1110, 60, false, true, 1, 0, true, 1});
  check({384, 384, 896, false, true, 1, 1, true, 0});
  check({384, 384, 896, true, false, 1, 0, false, 0});
}
/// More stages of the depth than the ring has, and more tiles than blocks.
TEST_P(Parts, SmallestOnesThatReuseStages) {
  check({1270, 1390, 332, false, true, 1, 0, true, 0});
  check({1510, 1510, 60, false, false, 1, 0, false, 0});
}

/// As steps of many rows have, and others of few tiles: blocks share the depth of a tile.
TEST_P(Parts, FewTiles) {
  for (const bool a : {false, true}) check({601, 500, 1541, a, false, 0.75, 1, true, 3});
  check({512, 1536, 640, false, true, 1, 0, false, 0});
  check({250, 4095, 1030, false, true, 1, 0, true, 2});
}

/// Rows that begin at odd numbers are read number by number, and pay where tiles fill the GPU.
TEST_P(Parts, RowsThatAreNotAligned) {
  for (const bool a : {false, true}) check({1531, 1399, 2001, a, true, 0.75, 1, true, 0});
}

TEST_P(Parts, SumsThatAreAddedToC) {
  for (const bool a : {false, true}) {
    check({1400, 1532, 500, a, true, 1, 1, true, 0});
    check({1400, 1532, 301, a, false, 0.5, 0, false, 4});
  }
}

TEST_P(Parts, ManyRows) {
  if (device_->runs_host_kernels()) GTEST_SKIP() << "only a GPU multiplies by parts";
  check({23001, 1300, 252, false, true, 1, 0, false, 0});
  check({1300, 23004, 530, true, false, 1, 1, true, 0});
}

TEST_P(Parts, DeepSumsOfFewNumbers) {
  if (device_->runs_host_kernels()) GTEST_SKIP() << "only a GPU multiplies by parts";
  check({1536, 384, 20003, true, false, 1, 1, false, 0});
  check({1501, 1025, 9011, true, false, 1, 0, false, 1});
}

/// The rule of this engine is an error of at most twice that of a plain implementation.
TEST_P(Parts, ErrorsAreThoseOfPlainSums) {
  if (device_->runs_host_kernels()) GTEST_SKIP() << "only a GPU multiplies by parts";
  std::vector<std::int64_t> rows(4);
  std::iota(rows.begin(), rows.end(), 0);
  const std::vector<Case> cases{{1536, 1536, 64, false, true},
                                {1536, 1536, 384, false, true},
                                {1536, 1536, 4096, false, true},
                                {384, 256, 65536, true, false}};
  for (const Numbers kind : {Numbers::kSigned, Numbers::kPositive, Numbers::kHeavyTailed}) {
    for (const Case& sizes : cases) {
      SCOPED_TRACE(::testing::Message()
                   << "depth " << sizes.k << ", kind " << static_cast<int>(kind));
      Product p = make(sizes, kind);
      put_operands(p);
      matmul(context_, p.args);
      const Errors errors = errors_of(p, rows, get<float>(p.args.c));
      const Errors plain = errors_of(p, rows, plain_product(p, rows));
      EXPECT_LE(errors.largest, 2 * plain.largest);
      EXPECT_LE(errors.root_mean_square, 2 * plain.root_mean_square);
      RecordProperty(
          "depth " + std::to_string(sizes.k) + " kind " + std::to_string(static_cast<int>(kind)),
          std::to_string(errors.largest / plain.largest) + " " +
              std::to_string(errors.root_mean_square / plain.root_mean_square));
    }
  }
}

TEST_P(Parts, LargeSmallAndWhatIsNotFinite) {
  constexpr float kLargest = 3.4028235e38f;
  Product p = make({1501, 1777, 640, false, true});
  for (std::int64_t q = 0; q < p.sizes.k; ++q) {
    p.a.at(3, q) = q == 5 ? HUGE_VALF : 1;
    p.a.at(4, q) = q == 6 ? std::nanf("") : 1;
    p.a.at(5, q) = q % 2 == 0 ? kLargest : -kLargest;
    p.a.at(6, q) *= 1e-30f;
    p.b.at(q, 11) = 1e-25f;
    p.b.at(q, 12) = 0;
  }
  p.b.at(9, 13) = -HUGE_VALF;
  for (std::int64_t j = 14; j < p.sizes.n; ++j) p.b.at(7, j) *= 1e-3f;
  put_operands(p);
  matmul(context_, p.args);
  const auto result = get<float>(p.args.c);
  const auto at = [&](std::int64_t i, std::int64_t j) {
    return result[static_cast<std::size_t>(i * p.sizes.n + j)];
  };
  for (std::int64_t j = 0; j < p.sizes.n; ++j) {
    ASSERT_FALSE(std::isfinite(at(3, j))) << j;
    ASSERT_FALSE(std::isfinite(at(4, j))) << j;
  }
  for (std::int64_t i = 0; i < p.sizes.m; ++i) {
    ASSERT_FALSE(std::isfinite(at(i, 13))) << i;
    if (i != 3 && i != 4) {
      ASSERT_EQ(at(i, 12), 0) << i;
    }
  }
  const double bound = static_cast<double>(p.sizes.k + 3) * 0x1p-24;
  for (const std::int64_t i : {6, 100}) {
    for (const std::int64_t j : {0, 1, 700}) {
      const Expected expected = expected_at(p, i, j);
      ASSERT_NEAR(at(i, j), expected.value, bound * expected.size) << i << ", " << j;
    }
  }
  const Expected large = expected_at(p, 5, 11);  // where rounding would make infinities
  EXPECT_NEAR(at(5, 11), large.value, bound * large.size);
}

TEST_P(Parts, CanBeCaptured) {
  if (!context_.stream().can_capture()) GTEST_SKIP() << "this device has no graphs";
  Product p = make({1501, 1777, 301, true, true, 0.75, 0, true, 3});
  put_operands(p);
  matmul(context_, p.args);
  const auto direct = get<float>(p.whole_c);
  put_c(p);
  const auto graph = context_.stream().capture([&] { matmul(context_, p.args); });
  for (int i = 0; i < 2; ++i) graph->launch(context_.stream());
  EXPECT_TRUE(testing::same_bits(get<float>(p.whole_c), direct));
}

INSTANTIATE_TEST_SUITE_P(Devices, Parts, testing::devices(), testing::device_name);

}  // namespace
}  // namespace sluice::kernels::matmul
