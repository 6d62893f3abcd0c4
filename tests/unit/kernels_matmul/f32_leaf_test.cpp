#include "kernels/matmul/cpu/f32_leaf.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "kernels/matmul/cpu/gemm.h"
#include "kernels/matmul/cpu/gemm_f32.h"
#include "unit/kernels_recurrent/guarded_buffer.h"

namespace sluice::kernels::matmul::cpu {
namespace {

using Guarded = testing::GuardedBuffer<float>;

struct Case {
  std::int64_t m, n, k;
  bool transpose_a, transpose_b;
  float alpha, beta;
};

/// The operands lie close to a page that faults; c starts with random numbers.
struct Operands {
  Guarded a, b, c;

  Operands(const Case& sizes, std::uint64_t seed)
      : a(sizes.m * sizes.k), b(sizes.k * sizes.n), c(sizes.m * sizes.n) {
    std::mt19937_64 engine(seed);
    std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
    for (Guarded* matrix : {&a, &b, &c}) {
      for (float& value : *matrix) value = uniform(engine);
    }
  }
};

std::vector<float> product(const F32Leaf& leaf, const Case& s, std::uint64_t seed) {
  Operands o(s, seed);
  multiply_f32(leaf, {s.transpose_a, s.transpose_b, s.m, s.n, s.k, s.alpha, o.a.data(),
                      s.transpose_a ? s.m : s.k, o.b.data(), s.transpose_b ? s.k : s.n, s.beta,
                      o.c.data(), s.n});
  return {o.c.begin(), o.c.end()};
}

std::vector<double> exact_product(const Case& s, std::uint64_t seed) {
  Operands o(s, seed);
  const std::vector<double> a(o.a.begin(), o.a.end()), b(o.b.begin(), o.b.end());
  std::vector<double> c(o.c.begin(), o.c.end());
  gemm<double>(s.transpose_a, s.transpose_b, s.m, s.n, s.k, static_cast<double>(s.alpha), a.data(),
               s.transpose_a ? s.m : s.k, b.data(), s.transpose_b ? s.k : s.n,
               static_cast<double>(s.beta), c.data(), s.n);
  return c;
}

/// Sizes around those of tiles, panels and blocks.
std::vector<Case> cases() {
  std::vector<Case> all;
  std::mt19937_64 engine(3);
  for (int i = 0; i < 48; ++i) {
    const auto size = [&](std::uint64_t most) {
      return static_cast<std::int64_t>(1 + engine() % most);
    };
    all.push_back({size(i % 12 == 0 ? 260 : 45), size(i % 12 == 1 ? 1100 : 70),
                   size(i % 6 == 2 ? 1100 : 60), (i & 1) != 0, (i & 2) != 0,
                   i % 5 == 0 ? -0.75f : 1.0f, i % 3 == 0 ? 0.0f : (i % 3 == 1 ? 1.0f : 0.5f)});
  }
  return all;
}

class F32Leaves : public ::testing::TestWithParam<const char*> {
 protected:
  static const F32Leaf* leaf(const std::string& name) {
    if (name == "portable") return &portable_f32_leaf();
    return name == "avx2" ? avx2_f32_leaf() : avx512_f32_leaf();
  }
};

TEST_P(F32Leaves, EqualTheProduct) {
  const F32Leaf* const under_test = leaf(GetParam());
  if (under_test == nullptr) GTEST_SKIP() << "this processor has no " << GetParam();
  std::uint64_t seed = 0;
  for (const Case& s : cases()) {
    const auto got = product(*under_test, s, ++seed);
    const auto expected = exact_product(s, seed);
    // k + 4 roundings, each of at most eps/2 of a partial sum; those of random terms below 1 stay
    // below sqrt(k).
    const auto terms = static_cast<double>(s.k + 4);
    const double tolerance = 0x1p-23 * terms * std::sqrt(terms);
    for (std::size_t i = 0; i < got.size(); ++i) {
      ASSERT_NEAR(got[i], expected[i], tolerance)
          << "m " << s.m << " n " << s.n << " k " << s.k << " element " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, F32Leaves,
                         ::testing::Values("portable", "avx2", "avx512"),
                         [](const auto& instance) { return std::string(instance.param); });

TEST(F32Leaf, Avx2AndAvx512GiveTheSameBits) {
  const F32Leaf *avx2 = avx2_f32_leaf(), *avx512 = avx512_f32_leaf();
  if (avx2 == nullptr || avx512 == nullptr) GTEST_SKIP() << "this processor lacks AVX2 or AVX-512";
  std::uint64_t seed = 0;
  for (const Case& s : cases()) {
    ++seed;
    EXPECT_EQ(product(*avx2, s, seed), product(*avx512, s, seed)) << "case " << seed;
  }
}

}  // namespace
}  // namespace sluice::kernels::matmul::cpu
