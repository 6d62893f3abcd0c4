#include "bench/recurrent_bench.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "sluice/error.h"
#include "unit/bench/trace_counts.h"
#include "unit/support/on_device.h"
#include "unit/support/temporary_folder.h"

namespace sluice::bench {
namespace {

TEST(RecurrentBench, TellsHowItGetsOn) {
  const testing::TemporaryFolder folder;
  const auto shapes = folder.path() / "small.shapes";
  std::ofstream(shapes) << "small time=3 batch=2 input=5 hidden=8 pass=forward\n";
  RecurrentBenchOptions options;
  options.shapes = shapes.string();
  options.implementations = "portable,auto";
  options.skip_declined = true;
  options.repeats = 2;
  std::map<std::string, std::vector<double>> told;
  options.watch = [&](std::string_view what, double done) {
    told[std::string(what)].push_back(done);
  };
  std::ostringstream out;
  const std::size_t runners = run_recurrent_bench(options, out).size();
  ASSERT_EQ(told.size(), 2U);
  EXPECT_EQ(told["small forward on cpu: trying implementations"], (std::vector<double>{0, 0.5, 1}));
  const std::vector<double>& turns = told["small forward on cpu: timed turns"];
  ASSERT_EQ(turns.size(), 1 + 2 * runners);
  EXPECT_TRUE(std::ranges::is_sorted(turns));
  EXPECT_EQ(turns.back(), 1);
}

TEST(RecurrentBench, HoldsEveryImplementationAgainstTheOracle) {
  const testing::TemporaryFolder folder;
  const auto shapes = folder.path() / "small.shapes";
  std::ofstream(shapes) << "plain time=7 batch=5 input=9 hidden=18\n"
                           "ragged time=7 batch=5 input=9 hidden=18 directions=2 lengths=uniform\n"
                           "half time=7 batch=5 input=9 hidden=18 dtype=bfloat16\n"
                           "hard cell=gru time=7 batch=5 input=9 hidden=18 hard_sigmoid=on\n"
                           "other cell=gru time=7\n";
  RecurrentBenchOptions options;
  options.shapes = shapes.string();
  options.repeats = 3;
  options.json = (folder.path() / "out.json").string();
  std::ostringstream out;
  const std::vector<BenchResult> results = run_recurrent_bench(options, out);

  std::set<std::string> implementations;
  for (const BenchResult& result : results) {
    EXPECT_NE(result.shape.name, "other");
    EXPECT_GT(result.milliseconds, 0);
    EXPECT_NEAR(result.gflops * result.milliseconds * 1e6,
                result.shape.forward_flops() * (result.pass == Pass::kForward ? 1 : 3), 1);
    // oneDNN multiplies float32 anywhere, but bfloat16 with AVX-512 alone.
    if (result.shape.dtype == base::DType::kFloat32) {
      ASSERT_TRUE(result.gemm_gflops.has_value());
    }
    if (result.gemm_gflops) {
      EXPECT_NEAR(*result.share_of_gemm() * *result.gemm_gflops, result.gflops,
                  1e-9 * result.gflops);
      EXPECT_LT(*result.share_of_gemm(), 1);  // a few rows of 18 units fill no machine
    }
    ASSERT_TRUE(result.error.has_value());
    // float32 keeps 24 bits, bfloat16 storage 8; a sum of 27 products and 7 steps on top.
    EXPECT_LT(*result.error, result.shape.dtype == base::DType::kFloat32 ? 1e-5 : 3e-2)
        << result.shape.name << " " << result.implementation;
    EXPECT_GT(*result.error, 0);
    implementations.insert(result.implementation);
  }
  EXPECT_TRUE(implementations.contains("portable"));
  std::stringstream json;
  json << std::ifstream(options.json).rdbuf();
  for (const char* key :
       {"\"name\"", "\"pass\"", "\"implementation\"", "\"peer\"", "\"milliseconds\"", "\"gflops\"",
        "\"error\"", "\"lengths\"", "\"share_of_gemm\""}) {
    EXPECT_NE(json.str().find(key), std::string::npos) << key;
  }
}

TEST(RecurrentBench, OverridesTheDtypeAndSkipsWhatDeclines) {
  const testing::TemporaryFolder folder;
  folder.write("small.shapes", "plain time=2 batch=2 input=3 hidden=4 pass=forward device=cpu\n");
  RecurrentBenchOptions options;
  options.shapes = (folder / "small.shapes").string();
  options.dtype = "bfloat16";
  options.device = "test";
  options.repeats = 1;
  options.skip_declined = true;
  options.implementations = "fastest,portable,portable";
  std::ostringstream out;
  const std::vector<BenchResult> results = run_recurrent_bench(options, out);
  ASSERT_EQ(results.size(), 1u);  // once, and forward only
  EXPECT_EQ(results[0].implementation, "portable");
  EXPECT_EQ(results[0].shape.dtype, base::DType::kBFloat16);
  EXPECT_EQ(results[0].shape.device, "test");
  EXPECT_NE(out.str().find("fastest declines"), std::string::npos) << out.str();
  options.dtype = "float16";  // which no implementation on the CPU takes
  EXPECT_THROW(run_recurrent_bench(options, out), Error);
}

class ProfiledRecurrentBench : public ::testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Devices, ProfiledRecurrentBench, sluice::testing::host_devices(),
                         sluice::testing::device_name);

// And nothing but those turns: what a device that captures does first with each copy of inputs and
// outputs is over by then.
TEST_P(ProfiledRecurrentBench, HasFurtherTurns) {
  const testing::TemporaryFolder folder;
  RecurrentBenchOptions options;
  options.shapes = folder.write("small.shapes", "plain time=3 batch=2 input=3 hidden=4\n").string();
  options.device = GetParam();
  options.repeats = 5;
  options.implementations = "auto,combined-inputs,portable";
  options.skip_declined = true;
  options.profile.trace = (folder / "trace.json").string();
  options.profile.first_step = 2;
  options.profile.last_step = 3;
  std::ostringstream out;
  const std::vector<BenchResult> results = run_recurrent_bench(options, out);
  ASSERT_GE(results.size(), 2u);
  TraceCounts trace(options.profile.trace);
  std::map<std::string, int> expected;
  int backward = 0;
  for (const BenchResult& result : results) {
    for (const char* turn : {"turn 2", "turn 3"}) {
      expected[fmt::format("plain {} {} {}", name_of(result.pass), result.implementation, turn)] =
          1;
    }
    if (result.pass == Pass::kForwardBackward) backward += 2;
  }
  EXPECT_EQ(trace.steps, expected);
  EXPECT_EQ(trace.modules["lstm forward"], 2 * static_cast<int>(results.size()));
  EXPECT_EQ(trace.modules["lstm backward"], backward);
}

TEST(RecurrentBench, RefusesWhatIsNotThere) {
  const testing::TemporaryFolder folder;
  const auto shapes = folder.path() / "small.shapes";
  std::ofstream(shapes) << "plain time=2 batch=2 input=2 hidden=2\n";
  RecurrentBenchOptions options;
  options.shapes = shapes.string();
  std::ostringstream out;
  options.implementations = "fastest";
  EXPECT_THROW(run_recurrent_bench(options, out), Error);
  options.implementations = "portable";
  options.passes = "sideways";
  EXPECT_THROW(run_recurrent_bench(options, out), Error);
  options.passes = "forward";
  options.cell = kernels::recurrent::CellType::kGru;
  EXPECT_THROW(run_recurrent_bench(options, out), Error);
  options.cell = kernels::recurrent::CellType::kLstm;
  options.json = "/nonexistent/out.json";
  EXPECT_THROW(run_recurrent_bench(options, out), Error);
}

}  // namespace
}  // namespace sluice::bench
