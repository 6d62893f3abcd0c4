#include "bench/host_numbers.h"

#include <gtest/gtest.h>

#include <cmath>

#include "runtime/buffer.h"

namespace sluice::bench {
namespace {

using base::DType;

TEST(HostNumbers, AreHeldExactlyByTheirDtype) {
  for (const char* name : {"cpu", "test"}) {
    const auto device = runtime::open_device(name);
    const runtime::Context context(*device);
    for (const DType dtype :
         {DType::kFloat64, DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
      Random random(3);
      const std::vector<double> values = draw(random, 100, 0.5, dtype);
      const runtime::Buffer buffer(*device, 100 * base::size_of(dtype));
      const runtime::Tensor tensor = buffer.tensor(dtype, {100});
      upload(context, tensor, values);
      EXPECT_EQ(download(context, tensor), values) << base::name_of(dtype);
      double largest = 0;
      for (const double value : values) largest = std::max(largest, std::abs(value));
      EXPECT_LE(largest, 0.5);
      EXPECT_GT(largest, 0.4);
      poison(context, tensor);
      for (const double value : download(context, tensor)) EXPECT_TRUE(std::isnan(value));
    }
    EXPECT_TRUE(download(context, {}).empty());
  }
}

TEST(HostNumbers, AreDrawnOneAfterTheOther) {
  Random random(5), same(5);
  constexpr std::int64_t kMany = 40000;  // worth several threads
  const std::vector<double> values = draw(random, kMany, 2, DType::kFloat64);
  for (const double value : values) ASSERT_EQ(value, same.uniform(2));
  EXPECT_EQ(random.next(), same.next());
}

}  // namespace
}  // namespace sluice::bench
