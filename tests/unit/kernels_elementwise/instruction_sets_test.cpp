#include "kernels/elementwise/cpu/mask_row.h"
#include "kernels/elementwise/cpu/tanh_loops.h"
#include "runtime/rng.h"
#include "unit/support/on_device.h"

namespace sluice::kernels::elementwise::cpu {
namespace {

TEST(InstructionSets, TanhHasTheSameBits) {
  std::mt19937_64 engine(3);
  const auto x = testing::random_values<float>(engine, 10007, 11);
  const auto count = static_cast<std::int64_t>(x.size());
  std::vector<float> portable(x.size()), other(x.size());
  tanh_portable(x.data(), portable.data(), count);
  if (__builtin_cpu_supports("avx2")) {
    tanh_avx2(x.data(), other.data(), count);
    EXPECT_TRUE(testing::same_bits(other, portable));
  }
  if (__builtin_cpu_supports("avx512f")) {
    tanh_avx512(x.data(), other.data(), count);
    EXPECT_TRUE(testing::same_bits(other, portable));
  }
}

using Draw = void (*)(const WordCounter&, const MaskedRow<float>&);

/// Holds one instruction set's mask against the definition, from a group in the middle on.
void expect_masks(Draw draw) {
  const runtime::DropoutKey key{0x123456789abcdef0u, 7, 5};
  for (const std::int64_t features : {1, 4, 63, 64, 65, 200}) {
    std::vector<float> values(static_cast<std::size_t>(features), 1.0f);
    draw({key.philox_key(), 3, 11, 0xfffffff0u, key.stream},
         {values.data(), values.data(), features, 0x60000000u, 2.0f});
    for (std::uint32_t u = 0; u < features; ++u) {
      const bool keep = key.word(0xfffffff0u, 11, 12 + u) >= 0x60000000u;
      ASSERT_EQ(values[u], keep ? 2.0f : 0.0f) << "of " << features << " at " << u;
    }
  }
}

TEST(InstructionSets, DropoutFollowsTheGenerator) {
  expect_masks(&mask_row_portable);
  if (__builtin_cpu_supports("avx2")) expect_masks(&mask_row_avx2);
  if (__builtin_cpu_supports("avx512f")) expect_masks(&mask_row_avx512);
}

}  // namespace
}  // namespace sluice::kernels::elementwise::cpu
