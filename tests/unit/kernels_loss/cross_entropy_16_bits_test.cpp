#include <cmath>

#include "unit/kernels_loss/cross_entropy_case.h"

namespace sluice::kernels::loss {
namespace {

using testing::same_bits;

class CrossEntropyIn16Bits : public CrossEntropyCase {
 protected:
  /// Of logits of 16 bits, with rows that may have further columns.
  template <typename L>
  void check_logits(std::int64_t time, std::int64_t rows, std::int64_t vocabulary, double smoothing,
                    bool in_place) {
    Problem p = make<float>(time, rows, vocabulary, smoothing, 23);
    const std::int64_t columns = (vocabulary + 7) / 8 * 8;
    std::vector<L> stored(static_cast<std::size_t>(p.tokens() * columns), L(NAN));
    for (std::int64_t n = 0; n < p.tokens(); ++n) {
      for (std::int64_t j = 0; j < vocabulary; ++j) {
        double& logit = p.logits[static_cast<std::size_t>(n * vocabulary + j)];
        L& at = stored[static_cast<std::size_t>(n * columns + j)];
        at = L(static_cast<float>(logit));
        logit = static_cast<double>(static_cast<float>(at));
      }
    }
    const Expected e = expect(p);
    CrossEntropyArgs args = arguments<float>(p);
    const Tensor whole = put(stored, Shape{p.tokens(), columns});
    args.logits = whole.slice(1, 0, vocabulary);
    args.d_logits = in_place ? whole : poisoned(base::dtype_of<L>(), {p.tokens(), columns});
    args.d_bias = put(std::vector<float>(static_cast<std::size_t>(vocabulary), 0.5F));
    cross_entropy(context_, args);
    check_sums(args.sums, e, kTolerance<float>);
    // Half a unit of the last place, and what float32 is off by, in which float16's smallest are.
    const double unit = std::is_same_v<L, base::Float16> ? 0x1p-11 : 0x1p-8;
    const auto gradient = get<L>(args.d_logits);
    const auto bias = get<float>(args.d_bias);
    for (std::int64_t j = 0; j < columns; ++j) {
      double sum = 0, sizes = 0;
      for (std::int64_t n = 0; n < p.tokens(); ++n) {
        const L at = gradient[static_cast<std::size_t>(n * columns + j)];
        const auto value = static_cast<double>(static_cast<float>(at));
        const double exact =
            j < vocabulary ? e.gradient[static_cast<std::size_t>(n * vocabulary + j)] : 0;
        ASSERT_NEAR(value, exact, unit * std::abs(exact) + kTolerance<float>)
            << "token " << n << " at " << j;
        sum += exact;
        sizes += std::abs(exact);
      }
      if (j >= vocabulary) continue;
      ASSERT_NEAR(bias[static_cast<std::size_t>(j)], 0.5 + sum,
                  unit * sizes + kTolerance<float> * static_cast<double>(p.tokens()))
          << "at " << j;
    }
    release_memory();
  }
};

// What a layer of 16 bits takes: rounded once, by the same arithmetic.
TEST_P(CrossEntropyIn16Bits, GradientsAreThoseOfFloat32Rounded) {
  for (const std::int64_t vocabulary : {5, 1028, 2077}) {
    const Problem p = make<float>(5, 7, vocabulary, 0.1, 21);
    CrossEntropyArgs args = arguments<float>(p);
    cross_entropy(context_, args);
    const auto wide = get<float>(args.d_logits);
    const auto sums = get<double>(args.sums);
    const auto check = [&](auto tag) {
      using G = typename decltype(tag)::type;
      args.d_logits = poisoned(base::dtype_of<G>(), args.logits.shape());
      args.sums = poisoned(DType::kFloat64, {kSums});
      cross_entropy(context_, args);
      EXPECT_TRUE(same_bits(get<double>(args.sums), sums));
      const auto narrow = get<G>(args.d_logits);
      for (std::size_t i = 0; i < wide.size(); ++i)
        ASSERT_EQ(narrow[i].bits, G(wide[i]).bits) << "at " << i;
    };
    check(base::TypeTag<base::BFloat16>{});
    check(base::TypeTag<base::Float16>{});
  }
}

// The same results as of the same numbers in float32, whose gradient is rounded once, in place too.
TEST_P(CrossEntropyIn16Bits, LogitsAreReckonedAsFloat32) {
  for (const std::int64_t vocabulary : {5, 1032, 2077, 4103, 32768, 33000}) {
    const std::int64_t rows = vocabulary > 9999 ? 2 : 7;
    for (const bool in_place : {false, true}) {
      const double smoothing = in_place ? 0 : 0.1;
      check_logits<base::BFloat16>(5, rows, vocabulary, smoothing, in_place);
      check_logits<base::Float16>(5, rows, vocabulary, 0.1 - smoothing, in_place);
    }
  }
}

// What a row's sums are depends on its length and type alone.
TEST_P(CrossEntropyIn16Bits, SumsDoNotDependOnTheGradient) {
  for (const std::int64_t vocabulary : {40, 4104}) {
    const Problem p = make<float>(5, 7, vocabulary, 0.1, 24);
    CrossEntropyArgs args = arguments<float>(p);
    std::vector<base::BFloat16> stored;
    for (const double logit : p.logits) stored.emplace_back(static_cast<float>(logit));
    args.logits = put(stored, Shape{p.tokens(), vocabulary});
    args.d_logits = Tensor();
    cross_entropy(context_, args);
    const auto sums = get<double>(args.sums);
    args.d_logits = poisoned(DType::kBFloat16, args.logits.shape());
    args.sums = poisoned(DType::kFloat64, {kSums});
    cross_entropy(context_, args);
    EXPECT_TRUE(same_bits(get<double>(args.sums), sums));
  }
}

// So long and so many that what holds some rows at once is used over and over.
TEST_P(CrossEntropyIn16Bits, ManyLongRows) {
  const std::int64_t rows = device_->runs_host_kernels() ? 2 : 109, vocabulary = 32000;
  check_logits<base::BFloat16>(5, rows, vocabulary, 0.1, true);
}

// Of logits that are as large the first is the largest: beside each other, 4,096 apart, and apart
// otherwise.
TEST_P(CrossEntropyIn16Bits, EqualLogitsAreTakenInTheirOrder) {
  constexpr std::int64_t kVocabulary = 4104;
  for (const std::int64_t other : {5, 4099, 20, 4000}) {
    std::vector<base::BFloat16> stored(2 * kVocabulary, base::BFloat16(0.0F));
    for (const std::int64_t at : {std::int64_t{3}, other}) {
      stored[static_cast<std::size_t>(at)] = base::BFloat16(5.0F);
      stored[static_cast<std::size_t>(kVocabulary + at)] = base::BFloat16(5.0F);
    }
    CrossEntropyArgs args = arguments<float>(make<float>(1, 2, kVocabulary, 0, 25));
    args.logits = put(stored, Shape{2, kVocabulary});
    args.targets = put(std::vector<std::int32_t>{3, static_cast<std::int32_t>(other)});
    args.lengths = args.d_logits = Tensor();
    cross_entropy(context_, args);
    EXPECT_EQ(get<double>(args.sums)[kCorrect], 1) << other;
  }
}

// What a mask leaves out, here and there and 512 beside each other, is as if it were much smaller.
TEST_P(CrossEntropyIn16Bits, InfinitelySmallLogitsHaveNoShare) {
  constexpr std::int64_t kVocabulary = 4104;
  const Problem p = make<float>(3, 4, kVocabulary, 0, 26);
  const auto run = [&](float least) {
    std::vector<base::BFloat16> stored;
    for (std::int64_t n = 0; n < p.tokens(); ++n) {
      for (std::int64_t j = 0; j < kVocabulary; ++j) {
        const bool target = j == p.targets[static_cast<std::size_t>(n)];
        const bool masked = !target && (j % 3 > 0 || j / 512 == 4);
        stored.emplace_back(masked ? least : static_cast<float>(p.row(n)[j]));
      }
    }
    CrossEntropyArgs args = arguments<float>(p);
    args.logits = put(stored, Shape{p.tokens(), kVocabulary});
    args.d_logits = poisoned(DType::kBFloat16, args.logits.shape());
    cross_entropy(context_, args);
    return std::pair(get<double>(args.sums), get<base::BFloat16>(args.d_logits));
  };
  const auto [sums, gradient] = run(-INFINITY);
  const auto [finite_sums, finite_gradient] = run(-1e4F);
  EXPECT_TRUE(std::isfinite(sums[kLoss]));
  EXPECT_TRUE(same_bits(sums, finite_sums));
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    ASSERT_EQ(gradient[i].bits, finite_gradient[i].bits) << "at " << i;
  }
}

// A NaN is passed over where the largest is looked for.
TEST_P(CrossEntropyIn16Bits, NanCountsOnlyWhereTokensCount) {
  constexpr std::int64_t kVocabulary = 4104;
  const Problem p = make<float>(2, 2, kVocabulary, 0, 27);
  std::vector<base::BFloat16> stored;
  for (const double logit : p.logits) stored.emplace_back(static_cast<float>(logit));
  stored[static_cast<std::size_t>(3 * kVocabulary + 4)] = base::BFloat16(NAN);
  CrossEntropyArgs args = arguments<float>(p);
  args.logits = put(stored, Shape{4, kVocabulary});
  args.lengths = put(std::vector<std::int32_t>{2, 1});
  args.d_logits = poisoned(DType::kBFloat16, args.logits.shape());
  cross_entropy(context_, args);
  EXPECT_TRUE(std::isfinite(get<double>(args.sums)[kLoss]));
  for (const base::BFloat16 g : get<base::BFloat16>(args.d_logits)) {
    ASSERT_TRUE(std::isfinite(static_cast<float>(g)));
  }
  args.lengths = Tensor();  // now every token counts
  cross_entropy(context_, args);
  EXPECT_TRUE(std::isnan(get<double>(args.sums)[kLoss]));
}

TEST_P(CrossEntropyIn16Bits, LogitsMustLieInWholePieces) {
  const Problem p = make<float>(2, 3, 20, 0, 4);
  CrossEntropyArgs args = arguments<float>(p);
  args.d_logits = Tensor();
  args.logits = poisoned(DType::kBFloat16, {6, 20});
  EXPECT_THROW(cross_entropy(context_, args), Error);
  args.logits = poisoned(DType::kBFloat16, {6, 24}).slice(1, 0, 20);
  args.d_logits = poisoned(DType::kFloat16, {6, 24});
  EXPECT_THROW(cross_entropy(context_, args), Error);
}

// Rows that are further apart than they are long: logits as they were, a gradient with zeros
// behind.
TEST_P(CrossEntropyIn16Bits, PaddedRowsHaveTheSameResults) {
  for (const std::int64_t vocabulary : {35, 36, 1029, 2077}) {
    const std::int64_t columns = (vocabulary + 7) / 8 * 8;
    const Problem p = make<float>(5, 7, vocabulary, 0.1, 22);
    CrossEntropyArgs args = arguments<float>(p);
    args.d_logits = poisoned(DType::kBFloat16, args.logits.shape());
    cross_entropy(context_, args);
    const auto gradient = get<base::BFloat16>(args.d_logits);
    const auto sums = get<double>(args.sums);
    std::vector<float> apart(static_cast<std::size_t>(p.tokens() * columns), NAN);
    for (std::int64_t n = 0; n < p.tokens(); ++n) {
      std::copy_n(p.row(n), vocabulary, apart.begin() + n * columns);
    }
    args.logits = put(apart, Shape{p.tokens(), columns}).slice(1, 0, vocabulary);
    args.d_logits = poisoned(DType::kBFloat16, {p.tokens(), columns});
    args.sums = poisoned(DType::kFloat64, {kSums});
    cross_entropy(context_, args);
    EXPECT_TRUE(same_bits(get<double>(args.sums), sums));
    const auto padded = get<base::BFloat16>(args.d_logits);
    for (std::int64_t n = 0; n < p.tokens(); ++n) {
      for (std::int64_t j = 0; j < columns; ++j) {
        const auto bits = padded[static_cast<std::size_t>(n * columns + j)].bits;
        const auto at = static_cast<std::size_t>(n * vocabulary + j);
        ASSERT_EQ(bits, j < vocabulary ? gradient[at].bits : 0) << "token " << n << " at " << j;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, CrossEntropyIn16Bits, testing::devices(), testing::device_name);

}  // namespace
}  // namespace sluice::kernels::loss
