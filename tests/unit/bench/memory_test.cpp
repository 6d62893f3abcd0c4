#include <gtest/gtest.h>

#include <sstream>

#include "bench/recurrent_bench.h"
#include "unit/support/temporary_folder.h"

namespace sluice::bench {
namespace {

std::string refusal_of(std::int64_t batch, std::int64_t hidden) {
  BenchShape shape;
  shape.name = "huge";
  shape.time = 10;
  shape.batch = batch;
  shape.input = shape.hidden = hidden;
  std::ostringstream out;
  const Error error = testing::error_of(
      [&] { run_recurrent_bench({}, std::span<const BenchShape>(&shape, 1), out); });
  EXPECT_EQ(error.code(), ErrorCode::kOutOfMemory);
  return error.what();
}

// Before any of it is taken.
TEST(BenchMemory, OfAShapeThatDoesNotFitIsRefused) {
  const std::string many = refusal_of(1 << 22, 4096);
  EXPECT_NE(many.find("shape huge takes "), std::string::npos) << many;
  EXPECT_NE(many.find("MiB for forward, and cpu has "), std::string::npos) << many;
  EXPECT_NE(many.find(" would fit"), std::string::npos) << many;
  const std::string wide = refusal_of(1, 1 << 22);
  EXPECT_NE(wide.find("leave it out"), std::string::npos) << wide;
}

}  // namespace
}  // namespace sluice::bench
