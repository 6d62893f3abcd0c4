#include "bench/shape_file.h"

#include <gtest/gtest.h>

#include "sluice/error.h"

namespace sluice::bench {
namespace {

std::string message_of(std::string_view text) {
  try {
    parse_shapes(text, "f.shapes");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(ShapeFile, ReadsEveryKey) {
  const auto shapes = parse_shapes(
      "# a comment\n\n"
      "a cell=gru time=3 batch=4 input=5 hidden=6 layers=2 directions=2 dtype=bf16 "
      "lengths=uniform seed=9 device=test # trailing\n"
      "b projection=7\n",
      "f");
  ASSERT_EQ(shapes.size(), 2u);
  EXPECT_EQ(shapes[0].name, "a");
  EXPECT_EQ(shapes[0].cell, kernels::recurrent::CellType::kGru);
  EXPECT_EQ(shapes[0].time, 3);
  EXPECT_EQ(shapes[0].batch, 4);
  EXPECT_EQ(shapes[0].input, 5);
  EXPECT_EQ(shapes[0].hidden, 6);
  EXPECT_EQ(shapes[0].layers, 2);
  EXPECT_EQ(shapes[0].directions, 2);
  EXPECT_EQ(shapes[0].dtype, base::DType::kBFloat16);
  EXPECT_TRUE(shapes[0].uniform_lengths);
  EXPECT_EQ(shapes[0].seed, 9u);
  EXPECT_EQ(shapes[0].device, "test");
  EXPECT_EQ(shapes[1].projection, 7);
  EXPECT_FALSE(shapes[1].uniform_lengths);
}

TEST(ShapeFile, CountsFlops) {
  const auto shapes = parse_shapes(
      "one time=100 batch=64 input=512 hidden=512\n"
      "two cell=gru time=2 batch=3 input=5 hidden=7 layers=2 directions=2\n",
      "f");
  EXPECT_EQ(shapes[0].forward_flops(), 2.0 * 100 * 64 * 4 * 512 * (512 + 512));
  EXPECT_EQ(shapes[1].forward_flops(),
            2 * (2.0 * 2 * 3 * 3 * 7 * (5 + 7)) + 2 * (2.0 * 2 * 3 * 3 * 7 * (14 + 7)));
}

TEST(ShapeFile, NamesTheLineAndTheKey) {
  EXPECT_NE(message_of("a time=1\nb hiden=3\n").find("f.shapes:2: hiden"), std::string::npos);
  EXPECT_NE(message_of("b hiden=3\n").find("'hidden'"), std::string::npos);
  EXPECT_NE(message_of("a time=zero").find("f.shapes:1: time"), std::string::npos);
  EXPECT_NE(message_of("a time=0").find("at least 1"), std::string::npos);
  EXPECT_NE(message_of("a time").find("key=value"), std::string::npos);
  EXPECT_NE(message_of("time=3").find("start with a name"), std::string::npos);
  EXPECT_NE(message_of("a lengths=some").find("uniform"), std::string::npos);
  EXPECT_NE(message_of("a cell=gru projection=3").find("f.shapes:1"), std::string::npos);
  EXPECT_NE(message_of("# nothing\n").find("no shape"), std::string::npos);
  EXPECT_THROW(read_shapes("/nonexistent/file"), Error);
}

}  // namespace
}  // namespace sluice::bench
