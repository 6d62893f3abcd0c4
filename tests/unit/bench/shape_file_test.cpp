#include "bench/shape_file.h"

#include <gtest/gtest.h>

#include <map>

#include "sluice/error.h"
#include "unit/support/message_of.h"
#include "unit/support/source_path.h"
#include "unit/support/temporary_folder.h"

namespace sluice::bench {

namespace recurrent = kernels::recurrent;

namespace {

std::string message_of(std::string_view text) {
  return testing::message_of([&] { parse_shapes(text, "f.shapes"); });
}

TEST(ShapeFile, ReadsEveryKey) {
  const auto shapes = parse_shapes(
      "# a comment\n\n"
      "a cell=gru time=3 batch=4 input=5 hidden=6 layers=2 directions=2 dtype=bf16 "
      "lengths=uniform seed=9 device=test # trailing\n"
      "b projection=7\n"
      "c reset=0.25 zoneout=0.1 recurrent_dropout=0.3 peepholes=on layer_norm=off\n"
      "d layer_norm=on hard_sigmoid=on\n"
      "e layers=3 projection=5,6,5\n",
      "f");
  ASSERT_EQ(shapes.size(), 5u);
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
  EXPECT_EQ(shapes[1].projections, std::vector<std::int64_t>{7});
  EXPECT_EQ(shapes[4].projections, (std::vector<std::int64_t>{5, 6, 5}));
  EXPECT_EQ(shapes[4].descriptor(false).input_of(2), 6);
  EXPECT_FALSE(shapes[1].uniform_lengths);
  EXPECT_FALSE(shapes[1].descriptor(true).has_extras());
  const kernels::recurrent::Descriptor extras = shapes[2].descriptor(true);
  EXPECT_TRUE(extras.resets && extras.peepholes && !extras.layer_norm);
  EXPECT_EQ(extras.zoneout_h, 0.1);
  EXPECT_EQ(extras.zoneout_c, 0.1);
  EXPECT_EQ(extras.recurrent_dropout, 0.3);
  EXPECT_EQ(shapes[2].reset, 0.25);
  EXPECT_TRUE(shapes[3].descriptor(false).layer_norm);
  EXPECT_TRUE(shapes[3].descriptor(false).hard_sigmoid && !extras.hard_sigmoid);
}

TEST(ShapeFile, CountsFlops) {
  const auto shapes = parse_shapes(
      "one time=100 batch=64 input=512 hidden=512\n"
      "two cell=gru time=2 batch=3 input=5 hidden=7 layers=2 directions=2\n"
      "three time=2 batch=3 input=5 hidden=7 layers=2 projection=4,6\n",
      "f");
  EXPECT_EQ(shapes[0].forward_flops(), 2.0 * 100 * 64 * 4 * 512 * (512 + 512));
  EXPECT_EQ(shapes[1].forward_flops(),
            2 * (2.0 * 2 * 3 * 3 * 7 * (5 + 7)) + 2 * (2.0 * 2 * 3 * 3 * 7 * (14 + 7)));
  EXPECT_EQ(shapes[2].forward_flops(),
            2.0 * 2 * 3 * (4 * 7 * (5 + 4) + 4 * 7) + 2.0 * 2 * 3 * (4 * 7 * (4 + 6) + 6 * 7));
}

TEST(ShapeFile, OverridesDtypeAndDevice) {
  const testing::TemporaryFolder folder;
  folder.write("a.shapes",
               "a time=3\na time=3 dtype=bfloat16\na time=4 device=test\nb time=3 pass=forward\n");
  const std::string path = (folder / "a.shapes").string();
  EXPECT_EQ(read_shapes(path, "", "").size(), 4u);
  const auto shapes = read_shapes(path, "tf32", "test");
  ASSERT_EQ(shapes.size(), 3u);  // the first two have become the same
  for (const BenchShape& shape : shapes) {
    EXPECT_EQ(shape.dtype_name(), "tf32");
    EXPECT_EQ(shape.dtype, base::DType::kFloat32);
    EXPECT_TRUE(shape.descriptor(true).tf32);
    EXPECT_EQ(shape.device, "test");
  }
  EXPECT_TRUE(shapes[0].has(Pass::kForwardBackward));
  EXPECT_TRUE(shapes[2].has(Pass::kForward));
  EXPECT_FALSE(shapes[2].has(Pass::kForwardBackward));
  EXPECT_THROW(read_shapes(path, "float8", ""), Error);
}

TEST(ShapeFile, HoldsTheListsThatWePromise) {
  const std::filesystem::path folder = testing::source_path("bench/shapes");
  const auto named = read_shapes(folder / "named.shapes");
  const auto flops_of = [&](std::string_view name, recurrent::CellType cell) {
    for (const BenchShape& shape : named) {
      if (shape.name == name && shape.cell == cell) return shape.forward_flops();
    }
    return 0.0;
  };
  for (const char* name :
       {"table", "ladder", "tagger", "gnmt", "long", "latency_h512", "latency_h1024"}) {
    EXPECT_GT(flops_of(name, recurrent::CellType::kLstm), 0) << name;
    EXPECT_DOUBLE_EQ(flops_of(name, recurrent::CellType::kGru),
                     flops_of(name, recurrent::CellType::kLstm) * 3 / 4)
        << name;
  }
  for (const char* batch : {"1", "2", "4", "8", "16", "32", "64", "128"}) {
    EXPECT_GT(flops_of(fmt::format("projected_b{}", batch), recurrent::CellType::kLstm), 0);
  }
  std::map<std::pair<recurrent::CellType, bool>, int> counts;
  for (const char* file : {"deepbench.shapes", "vanilla.shapes"}) {
    for (const BenchShape& shape : read_shapes(folder / file)) {
      EXPECT_EQ(shape.input, shape.hidden);
      EXPECT_EQ(shape.name, fmt::format("{}_h{}_b{}_t{}", shape.inference_only ? "infer" : "train",
                                        shape.hidden, shape.batch, shape.time));
      ++counts[{shape.cell, shape.inference_only}];
    }
  }
  // Sizes x batches x times: 4x4 + 3 + 3; 4x4 + 1 + 2; 3x3 + 3 + 3; 4x3x4 + 3 + 3; 3x4.
  EXPECT_EQ((counts[{recurrent::CellType::kLstm, false}]), 22);
  EXPECT_EQ((counts[{recurrent::CellType::kGru, false}]), 19);
  EXPECT_EQ((counts[{recurrent::CellType::kLstm, true}]), 15);
  EXPECT_EQ((counts[{recurrent::CellType::kGru, true}]), 54);
  EXPECT_EQ((counts[{recurrent::CellType::kRnnRelu, false}]), 12);
}

TEST(ShapeFile, NamesTheLineAndTheKey) {
  EXPECT_NE(message_of("a time=1\nb hiden=3\n").find("f.shapes:2: hiden"), std::string::npos);
  EXPECT_NE(message_of("b hiden=3\n").find("'hidden'"), std::string::npos);
  EXPECT_NE(message_of("a time=zero").find("f.shapes:1: time"), std::string::npos);
  EXPECT_NE(message_of("a time=0").find("at least 1"), std::string::npos);
  EXPECT_NE(message_of("a time").find("key=value"), std::string::npos);
  EXPECT_NE(message_of("time=3").find("start with a name"), std::string::npos);
  EXPECT_NE(message_of("a lengths=some").find("uniform"), std::string::npos);
  EXPECT_NE(message_of("a pass=backward").find("neither forward nor all"), std::string::npos);
  EXPECT_NE(message_of("a cell=gru projection=3").find("f.shapes:1"), std::string::npos);
  EXPECT_NE(message_of("a cell=gru peepholes=on").find("f.shapes:1"), std::string::npos);
  EXPECT_NE(message_of("a peepholes=yes").find("neither on nor off"), std::string::npos);
  EXPECT_NE(message_of("a reset=1").find("below 1"), std::string::npos);
  EXPECT_NE(message_of("a zoneout=0.1x").find("below 1"), std::string::npos);
  EXPECT_NE(message_of("# nothing\n").find("no shape"), std::string::npos);
  EXPECT_EQ(testing::message_of([] { read_shapes("/nonexistent/file"); }),
            "cannot open '/nonexistent/file': No such file or directory");
}

}  // namespace
}  // namespace sluice::bench
