#include "bench/sweep/sweep.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <sstream>

#include "sluice/error.h"
#include "unit/support/temporary_folder.h"

namespace sluice::bench::sweep {
namespace {

TEST(DrawnShapes, DependOnSeedAndNumberAlone) {
  const DrawnShape first = draw_shape(5, 17, "cuda");
  draw_shape(5, 16, "cuda");
  EXPECT_EQ(draw_shape(5, 17, "cuda").shape, first.shape);
  EXPECT_EQ(first.shape.name, "s5_17");
  for (const auto& [seed, index] : std::vector<std::pair<std::uint64_t, int>>{{6, 17}, {5, 18}}) {
    BenchShape other = draw_shape(seed, index, "cuda").shape;
    other.name = first.shape.name;
    EXPECT_NE(other, first.shape);
  }
}

TEST(DrawnShapes, AreLinesOfAShapeFile) {
  for (std::int64_t index = 1; index <= 200; ++index) {
    const BenchShape shape = draw_shape(3, index, "cpu").shape;
    EXPECT_EQ(parse_shapes(shape_line(shape), "line").front(), shape) << shape_line(shape);
  }
}

TEST(DrawnShapes, CoverEveryKindAndOctave) {
  constexpr int kCount = 4000;
  std::set<std::string> kinds;
  std::vector<std::int64_t> times, rows, widths;
  int odd = 0, projected = 0, ragged = 0, backward = 0, both = 0;
  for (int index = 1; index <= kCount; ++index) {
    const DrawnShape drawn = draw_shape(11, index, "cuda");
    const BenchShape& shape = drawn.shape;
    ASSERT_NO_THROW(shape.descriptor(true).validate()) << shape_line(shape);
    kinds.insert(std::string(name_of(shape.cell)) + " " + std::string(shape.dtype_name()));
    times.push_back(shape.time);
    rows.push_back(shape.batch);
    widths.push_back(shape.hidden);
    odd += shape.hidden % 2;
    projected += shape.projections.empty() ? 0 : 1;
    ragged += shape.uniform_lengths ? 1 : 0;
    backward += drawn.pass == Pass::kForwardBackward ? 1 : 0;
    both += shape.directions == 2 ? 1 : 0;
    EXPECT_EQ(shape.has(Pass::kForwardBackward), drawn.pass == Pass::kForwardBackward);
  }
  EXPECT_EQ(kinds.size(), 4U * 4U);
  // Each octave of a log-uniform number is as likely as any other; four standard deviations of how
  // many of 4000 fall into one of ten are 76.
  for (const auto& [numbers, most] :
       std::vector<std::pair<std::vector<std::int64_t>, double>>{{times, 1024}, {rows, 512}}) {
    for (double low = 1; low < most; low *= 2) {
      const auto count = std::ranges::count_if(
          numbers, [&](std::int64_t number) { return number >= low && number < 2 * low; });
      EXPECT_NEAR(count, kCount / std::log2(most + 1), 85) << low;
    }
  }
  EXPECT_LE(*std::ranges::max_element(widths), 2048);
  EXPECT_GT(*std::ranges::max_element(widths), 1900);
  // Expected 667 and more (widths below 8 are not rounded), 400, 667, 2000 and 1000.
  EXPECT_GT(odd, 500);
  EXPECT_NEAR(projected, 400, 80);
  EXPECT_NEAR(ragged, 667, 95);
  EXPECT_NEAR(backward, 2000, 130);
  EXPECT_NEAR(both, 1000, 110);
}

SweepOptions small() {
  SweepOptions options;
  options.device = "cpu";
  options.count = 20;
  options.seed = 2;
  options.most_gflop = 0.004;
  options.repeats = 2;
  return options;
}

TEST(Sweep, MeasuresBesideThePeerAndWritesWhatItMeasured) {
  const testing::TemporaryFolder folder;
  SweepOptions options = small();
  options.json = (folder.path() / "sweep.json").string();
  std::ostringstream out;
  const std::vector<Outcome> outcomes = run_sweep(options, out);
  ASSERT_EQ(outcomes.size(), 20U);
  std::size_t results = 0, skipped = 0, compared = 0;
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    const Outcome& outcome = outcomes[i];
    EXPECT_EQ(outcome.drawn.shape, draw_shape(2, static_cast<std::int64_t>(i) + 1, "cpu").shape);
    results += outcome.results.size();
    if (!outcome.skipped.empty()) {
      ++skipped;
      EXPECT_TRUE(outcome.results.empty());
      EXPECT_NE(out.str().find(outcome.skipped), std::string::npos);
      continue;
    }
    ASSERT_TRUE(outcome.own);
    EXPECT_FALSE(outcome.own->peer);
    EXPECT_EQ(outcome.own->error_against, "oracle");
    EXPECT_FALSE(outcome.is_inexact()) << *outcome.own->error;
    EXPECT_EQ(outcome.peer.has_value(), outcome.no_peer.empty());
    if (!outcome.peer) continue;
    ++compared;
    EXPECT_TRUE(outcome.peer->peer);
    EXPECT_FALSE(outcome.peer->shape.uniform_lengths);
    EXPECT_DOUBLE_EQ(*outcome.ratio(), outcome.peer->milliseconds / outcome.own->milliseconds);
  }
  EXPECT_GE(skipped, 1U);
  EXPECT_GE(compared, 2U);
  EXPECT_NE(out.str().find("seed 2: 20 shapes"), std::string::npos) << out.str();
  EXPECT_NE(out.str().find("geometric means"), std::string::npos) << out.str();
  std::ifstream file(options.json);
  EXPECT_EQ(nlohmann::json::parse(file).size(), results);
}

TEST(Sweep, HoldsLargeShapesAgainstThePeerInFloat32) {
  RecurrentBenchOptions bench;
  bench.passes = "forward+backward";
  bench.repeats = 1;
  bench.oracle_flops = 0;
  bench.reference = "onednn";
  BenchShape shape;
  shape.time = 5, shape.batch = 3, shape.input = 9, shape.hidden = 16;
  std::ostringstream out;
  for (const char* dtype : {"float32", "bfloat16"}) {
    shape.set_dtype(dtype);
    // Without AVX-512, oneDNN has no such layer in bfloat16.
    bench.implementations = dtype == std::string("float32") ? "portable,onednn" : "portable";
    for (const BenchResult& result : run_recurrent_bench(bench, std::span(&shape, 1), out)) {
      ASSERT_TRUE(result.error) << result.implementation;
      EXPECT_EQ(result.error_against, "onednn in float32");
      // The reference held against itself; else the rounding of storage, and of sums of 25 terms.
      if (result.implementation == "onednn" && dtype == std::string("float32")) {
        EXPECT_EQ(*result.error, 0);
      } else {
        EXPECT_GT(*result.error, 0);
        EXPECT_LT(*result.error, dtype == std::string("float32") ? 1e-5 : 3e-2);
      }
    }
  }
}

TEST(Sweep, TellsInexactFromExact) {
  Outcome outcome;
  outcome.drawn.shape.set_dtype("float16");
  outcome.own = BenchResult{};
  EXPECT_FALSE(outcome.is_inexact());
  outcome.own->error = 2e-3;
  EXPECT_FALSE(outcome.is_inexact());
  outcome.own->error = 2e-2;
  EXPECT_TRUE(outcome.is_inexact());
  outcome.peer = BenchResult{};
  outcome.peer->error = 1e-2;
  EXPECT_FALSE(outcome.is_inexact());
  outcome.own->error = std::nan("");
  EXPECT_TRUE(outcome.is_inexact());
}

TEST(Sweep, StopsInTimeAndChoosesASeed) {
  SweepOptions options = small();
  options.seconds = -1;
  options.seed.reset();
  std::ostringstream first, second;
  EXPECT_TRUE(run_sweep(options, first).empty());
  EXPECT_TRUE(run_sweep(options, second).empty());
  EXPECT_NE(first.str().find("0 shapes of 20"), std::string::npos) << first.str();
  EXPECT_NE(first.str().substr(0, 20), second.str().substr(0, 20));
  options.count = 0;
  EXPECT_THROW(run_sweep(options, first), Error);
}

}  // namespace
}  // namespace sluice::bench::sweep
