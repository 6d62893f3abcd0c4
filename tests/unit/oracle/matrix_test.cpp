#include "oracle/matrix.h"

#include <gtest/gtest.h>

#include "random_values.h"

namespace sluice::oracle {
namespace {

// Both sums have k terms below 1 in magnitude and differ only in fused or separate rounding: 2 k
// eps at most.
TEST(OracleMatrix, EqualsTheThreeLoopsForOddSizesAndTransposes) {
  RandomValues random(1);
  for (int trial = 0; trial < 40; ++trial) {
    const int64_t m = random.integer(1, 37), n = random.integer(1, 37);
    const int64_t k = trial % 4 == 0 ? random.integer(250, 600) : random.integer(1, 40);
    const std::vector<double> a = random.vector(m * k), b = random.vector(k * n);
    const std::vector<double> initial = random.vector(m * n);
    for (const bool a_turned : {false, true})
      for (const bool b_turned : {false, true}) {
        const MatrixView av = a_turned ? transposed(a.data(), m) : plain(a.data(), k);
        const MatrixView bv = b_turned ? transposed(b.data(), k) : plain(b.data(), n);
        std::vector<double> c = initial;
        multiply_add(m, n, k, av, bv, c.data());
        for (int64_t i = 0; i < m; ++i)
          for (int64_t j = 0; j < n; ++j) {
            double sum = initial[i * n + j];
            for (int64_t p = 0; p < k; ++p)
              sum += (a_turned ? a[p * m + i] : a[i * k + p]) *
                     (b_turned ? b[j * k + p] : b[p * n + j]);
            ASSERT_NEAR(c[i * n + j], sum, 4.5e-16 * static_cast<double>(k) + 1e-15);
          }
      }
  }
}

TEST(OracleMatrix, AddsColumnSums) {
  const std::vector<double> a = {1, 2, 3, 10, 20, 30};
  std::vector<double> sums = {100, 100, 100};
  add_column_sums(2, 3, a.data(), sums.data());
  EXPECT_EQ(sums, (std::vector<double>{111, 122, 133}));
}

}  // namespace
}  // namespace sluice::oracle
