#include "kernels/elementwise/cpu/tanh_loops.h"

#include "unit/support/on_device.h"

namespace sluice::kernels::elementwise::cpu {
namespace {

TEST(TanhLoops, AllInstructionSetsGiveTheSameBits) {
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

}  // namespace
}  // namespace sluice::kernels::elementwise::cpu
