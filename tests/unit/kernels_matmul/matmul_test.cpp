#include "kernels/matmul/matmul.h"

#include <cmath>

#include "unit/support/on_device.h"

namespace sluice::kernels::matmul {
namespace {

using base::BFloat16;
using base::DType;
using base::Shape;
using testing::random_values;
using testing::same_bits;
using testing::widened;

template <typename T>
constexpr bool kIsDouble = std::is_same_v<T, double>;
template <typename T>
using SumOf = std::conditional_t<kIsDouble<T>, double, float>;

struct Case {
  std::int64_t m, n, k;
  bool transpose_a, transpose_b;
  double alpha, beta;
  bool bias;
  std::int64_t gap;  ///< elements between the rows of a, b and c
};

struct Operands {
  MatmulArgs args;
  Tensor whole_c;  ///< c with the gaps between its rows
  std::vector<double> a, b, c, bias;
};

double expected_at(const Case& k, const Operands& o, std::int64_t i, std::int64_t j) {
  const auto at = [](const std::vector<double>& values, std::int64_t index) {
    return values[static_cast<std::size_t>(index)];
  };
  const std::int64_t lda = (k.transpose_a ? k.m : k.k) + k.gap;
  const std::int64_t ldb = (k.transpose_b ? k.k : k.n) + k.gap;
  double sum = 0;
  for (std::int64_t p = 0; p < k.k; ++p) {
    sum += at(o.a, k.transpose_a ? p * lda + i : i * lda + p) *
           at(o.b, k.transpose_b ? j * ldb + p : p * ldb + j);
  }
  const double before = k.beta == 0 ? 0 : k.beta * at(o.c, i * (k.n + k.gap) + j);
  return k.alpha * sum + before + (k.bias ? at(o.bias, j) : 0);
}

class Matmul : public testing::OnDevice {
 protected:
  template <typename T>
  Operands make(const Case& k, std::uint64_t seed) {
    std::mt19937_64 engine(seed);
    Operands o;
    const auto matrix = [&](std::int64_t rows, std::int64_t columns, auto type,
                            std::vector<double>& values) {
      using V = decltype(type);
      const auto numbers = random_values<V>(engine, rows * (columns + k.gap));
      values = widened(numbers);
      return put(numbers, Shape{rows, columns + k.gap});
    };
    const Tensor a = k.transpose_a ? matrix(k.k, k.m, T{}, o.a) : matrix(k.m, k.k, T{}, o.a);
    const Tensor b = k.transpose_b ? matrix(k.n, k.k, T{}, o.b) : matrix(k.k, k.n, T{}, o.b);
    o.whole_c = matrix(k.m, k.n, SumOf<T>{}, o.c);
    if (k.beta == 0) o.whole_c = poisoned(base::dtype_of<SumOf<T>>(), o.whole_c.shape());
    o.args.a = a.slice(1, 0, k.transpose_a ? k.m : k.k);
    o.args.b = b.slice(1, 0, k.transpose_b ? k.k : k.n);
    o.args.c = o.whole_c.slice(1, 0, k.n);
    o.args.transpose_a = k.transpose_a;
    o.args.transpose_b = k.transpose_b;
    o.args.alpha = k.alpha;
    o.args.beta = k.beta;
    if (k.bias) {
      const auto bias = random_values<SumOf<T>>(engine, k.n);
      o.bias = widened(bias);
      o.args.bias = put(bias);
    }
    return o;
  }

  /// `factor_error`: by how much a product may be off through the rounding of its factors.
  template <typename T>
  void check(const Case& k, std::uint64_t seed, double factor_error = 0) {
    const Operands o = make<T>(k, seed);
    matmul(context_, o.args);
    const auto result = get<SumOf<T>>(o.whole_c);
    // k products and additions, each rounded by at most eps/2 of a partial sum; those of random
    // terms below 1 stay below sqrt(k).
    const double eps = kIsDouble<T> ? 0x1p-52 : 0x1p-23;
    const auto terms = static_cast<double>(k.k + 4);
    const double tolerance = (eps * terms + factor_error) * std::sqrt(terms);
    const std::int64_t ldc = k.n + k.gap;
    for (std::int64_t i = 0; i < k.m; ++i) {
      for (std::int64_t j = 0; j < ldc; ++j) {
        const SumOf<T> value = result[static_cast<std::size_t>(i * ldc + j)];
        if (j < k.n) {
          ASSERT_NEAR(value, expected_at(k, o, i, j), tolerance)
              << "m " << k.m << " n " << k.n << " k " << k.k << " at " << i << ", " << j;
        } else if (k.beta != 0) {  // the gap between rows is untouched
          ASSERT_EQ(value, o.c[static_cast<std::size_t>(i * ldc + j)]);
        } else {
          ASSERT_TRUE(std::isnan(value));
        }
      }
    }
  }

  template <typename T>
  void check_all(double factor_error = 0) {
    std::mt19937_64 engine(7);
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
      const auto size = [&](std::uint64_t most) {
        return static_cast<std::int64_t>(1 + engine() % most);
      };
      Case k{size(40),
             size(70),
             size(seed % 8 == 0 ? 600 : 50),
             (seed & 1) != 0,
             (seed & 2) != 0,
             seed % 5 == 0 ? 1.0 : 0.75,
             seed % 3 == 0 ? 0.0 : (seed % 3 == 1 ? 1.0 : -0.5),
             seed % 4 < 2,
             seed % 7 < 3 ? 0 : 3};
      if (seed % 9 == 8) k.m = 1;
      check<T>(k, seed, factor_error);
    }
  }

  template <typename T>
  void check_empty() {
    check<T>({3, 5, 0, false, true, 1, 0, true, 0}, 1);
    check<T>({3, 5, 0, false, false, 1, 0.5, false, 0}, 2);
    check<T>({0, 5, 4, false, true, 1, 0, true, 0}, 3);
    check<T>({3, 0, 4, true, false, 1, 1, false, 0}, 4);
  }

  template <typename T>
  void check_rows() {
    constexpr std::int64_t kRows = 31, kColumns = 53;
    const Operands o = make<T>({kRows, kColumns, 600, false, true, 0.75, 0, true, 0}, 5);
    matmul(context_, o.args);
    const auto batch = get<T>(o.args.c);
    for (std::int64_t i = 0; i < kRows; ++i) {
      MatmulArgs single = o.args;
      single.a = o.args.a.slice(0, i, i + 1);
      single.c = poisoned(base::dtype_of<T>(), Shape{1, kColumns});
      matmul(context_, single);
      const auto row = batch.begin() + i * kColumns;
      EXPECT_TRUE(same_bits(get<T>(single.c), std::vector<T>(row, row + kColumns))) << "row " << i;
    }
  }

  template <typename T>
  std::vector<SumOf<T>> run(const Case& k, int threads) {
    const Operands o = make<T>(k, 11);
    set_threads(threads);
    matmul(context_, o.args);
    return get<SumOf<T>>(o.whole_c);
  }
};

TEST_P(Matmul, Float32EqualsTheSum) { check_all<float>(); }
TEST_P(Matmul, Float64EqualsTheSum) { check_all<double>(); }
TEST_P(Matmul, BFloat16EqualsTheSum) { check_all<BFloat16>(); }

TEST_P(Matmul, Float16EqualsTheSum) {
  if (device_->runs_host_kernels()) GTEST_SKIP() << "float16 is for GPUs";
  check_all<base::Float16>();
}

// Factors below 1 lose at most 2^-10 each where they are cut to 11 bits.
TEST_P(Matmul, Tf32EqualsTheSum) {
  context_.set_precision({DType::kFloat32, true});
  check_all<float>(2 * 0x1p-10);
}

// On a GPU sums may be rounded as they are written; rows of 40 and of 35, aligned and not.
TEST_P(Matmul, NarrowResultsAreTheWideOnesRounded) {
  const auto check_narrow = [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (const std::int64_t depth : {40, 35}) {
      const Operands o = make<T>({70, 24, depth, false, false, 1, 0, false, 0}, 3);
      MatmulArgs narrow = o.args;
      narrow.c = poisoned(base::dtype_of<T>(), o.args.c.shape());
      if (device_->runs_host_kernels()) {
        EXPECT_THROW(matmul(context_, narrow), Error);
        continue;
      }
      matmul(context_, o.args);
      matmul(context_, narrow);
      const auto wide = get<float>(o.args.c);
      const auto result = widened(get<T>(narrow.c));
      for (std::size_t i = 0; i < wide.size(); ++i) {
        // The two may add in another order: one rounding, to 8 bits at worst, and a little.
        const double value = static_cast<double>(wide[i]);
        ASSERT_NEAR(result[i], value, 0x1p-8 * std::fabs(value) + 1e-5) << "at " << i;
      }
    }
  };
  check_narrow(base::TypeTag<BFloat16>{});
  if (!device_->runs_host_kernels()) check_narrow(base::TypeTag<base::Float16>{});
}

TEST_P(Matmul, EmptySizes) {
  check_empty<float>();
  check_empty<double>();
  check_empty<BFloat16>();
}

TEST_P(Matmul, RepeatsToTheBit) {
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      const Case k{37, 129, 517, transpose_a, transpose_b, 1, 0, true, 0};
      for (const int threads : {1, 2, 3}) {
        EXPECT_TRUE(same_bits(run<float>(k, threads), run<float>(k, 1)));
        EXPECT_TRUE(same_bits(run<BFloat16>(k, threads), run<BFloat16>(k, threads)));
        EXPECT_TRUE(same_bits(run<double>(k, threads), run<double>(k, 1)));
      }
    }
  }
}

// For which a GPU has kernels of its own.
TEST_P(Matmul, FewRowsOfDeepSums) {
  for (const std::int64_t rows : {1, 2, 3}) {
    const Case k{rows, 320, 1536, false, true, 1, 0, false, 0};
    check<float>(k, static_cast<std::uint64_t>(rows));
    EXPECT_TRUE(same_bits(run<float>(k, 1), run<float>(k, 1))) << rows << " rows";
  }
}

// Once a product has run, the same one can be captured, and gives the same bits when replayed.
TEST_P(Matmul, CanBeCaptured) {
  if (!context_.stream().can_capture()) GTEST_SKIP() << "this device has no graphs";
  const Operands o = make<float>({33, 65, 130, false, true, 0.75, 0, true, 3}, 4);
  matmul(context_, o.args);
  const auto direct = get<float>(o.whole_c);
  const auto graph = context_.stream().capture([&] { matmul(context_, o.args); });
  testing::poison(context_, o.whole_c.data(), o.whole_c.byte_size());
  graph->launch(context_.stream());
  EXPECT_TRUE(same_bits(get<float>(o.whole_c), direct));
}

TEST_P(Matmul, RowsDoNotDependOnEachOther) {
  if (!device_->runs_host_kernels())
    GTEST_SKIP() << "cuBLAS chooses its kernel by the number of rows";
  check_rows<float>();
  check_rows<double>();
}

TEST_P(Matmul, RefusesWhatDoesNotFit) {
  const auto f32 = [&](const Shape& shape) { return poisoned(DType::kFloat32, shape); };
  MatmulArgs good;
  good.a = f32({2, 3});
  good.b = f32({3, 4});
  good.c = f32({2, 4});
  MatmulArgs bad = good;
  bad.transpose_b = true;
  EXPECT_THROW(matmul(context_, bad), Error);
  bad = good;
  bad.c = f32({2, 5});
  EXPECT_THROW(matmul(context_, bad), Error);
  bad = good;
  bad.bias = f32({3});
  EXPECT_THROW(matmul(context_, bad), Error);
  bad = good;
  bad.b = poisoned(DType::kFloat64, {3, 4});
  EXPECT_THROW(matmul(context_, bad), Error);
  bad = good;
  bad.c = poisoned(DType::kInt32, {2, 4});
  EXPECT_THROW(matmul(context_, bad), Error);
  bad = good;
  bad.a = f32({6});
  EXPECT_THROW(matmul(context_, bad), Error);
  EXPECT_NO_THROW(matmul(context_, good));
}

INSTANTIATE_TEST_SUITE_P(Devices, Matmul, testing::devices(), testing::device_name);

}  // namespace
}  // namespace sluice::kernels::matmul
