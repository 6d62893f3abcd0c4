#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <string>
#include <tuple>

#include "unit/kernels_recurrent/on_candidate.h"
#include "unit/kernels_recurrent/stack_case.h"
#include "unit/kernels_recurrent/stack_comparison.h"
#include "unit/support/on_device.h"

namespace sluice::kernels::recurrent::testing {
namespace {

constexpr std::string_view kName = "persistent-cluster";
constexpr int kTileRows = 8;

/// Of so many blocks as many clusters run at once; layers of so many units take them.
struct ClusterSize {
  int blocks, clusters;
  std::int64_t fewest_units, most_units;

  /// Tiles of a cluster: weights of float32 leave less room, and kernels with extras have two.
  int most_tiles(DType dtype, bool extras = false) const {
    return extras || (dtype == DType::kFloat32 && blocks == 16) ? 2 : 3;
  }
  /// Of one direction, with so many tiles a cluster.
  std::int64_t most_rows(std::int64_t directions, int tiles) const {
    return clusters / directions * kTileRows * tiles;
  }
};
constexpr std::array kSizes{ClusterSize{4, 30, 6, 128}, ClusterSize{8, 15, 129, 256},
                            ClusterSize{16, 7, 257, 512}};

/// A device and a precision.
using Parameter = std::tuple<const char*, const char*>;

std::string parameter_name(const ::testing::TestParamInfo<Parameter>& parameter) {
  return fmt::format("{}_{}", std::get<0>(parameter.param), std::get<1>(parameter.param));
}

/// Layers in one launch, at every size of cluster and number of tiles: only on devices that have
/// them.
class RecurrentClusters : public OnCandidate<Parameter> {
 protected:
  RecurrentClusters() : OnCandidate(kName) {}

  /// One layer of a few steps, as wide as the cluster or less.
  Descriptor layer_of(const ClusterSize& size, CellType cell, std::int64_t directions) {
    Descriptor d;
    d.cell = cell;
    d.directions = directions;
    d.input = draw(6, 40);
    d.hidden = draw(0, 1) == 0 ? size.most_units : draw(size.fewest_units, size.most_units);
    d.time = draw(3, 6);
    d.dtype = precision_.storage;
    d.rows = fewest_rows();
    d.training = true;
    return d;
  }
  /// Fewer of float32 are the whole GPU's (persistent-grid).
  std::int64_t fewest_rows() const { return precision_.storage == DType::kFloat32 ? 5 : 1; }
  RunOptions options() const {
    return {std::get<0>(GetParam()), std::string(kName), 1, precision_.tf32};
  }
  /// Products of inputs and of weight gradients cut factors off in TF32, by three times what
  /// float16's rounding of as many places errs by.
  double tolerance() const {
    return precision_.tf32 ? 3 * tolerance_of(DType::kFloat16) : tolerance_of(precision_.storage);
  }

  const runtime::Precision precision_ = runtime::Precision::parse(std::get<1>(GetParam()));
};

INSTANTIATE_TEST_SUITE_P(, RecurrentClusters,
                         ::testing::Combine(sluice::testing::devices(),
                                            ::testing::Values("bfloat16", "float16", "tf32",
                                                              "float32")),
                         parameter_name);

TEST_P(RecurrentClusters, EqualOracleAtEveryNumberOfTiles) {
  int compared = 0;
  for (const ClusterSize& size : kSizes) {
    for (const CellType cell : {CellType::kLstm, CellType::kGru}) {
      for (const std::int64_t directions : {1, 2}) {
        const Descriptor few_rows = layer_of(size, cell, directions);
        if (gpu_lacks(few_rows)) continue;
        const int most_tiles = size.most_tiles(few_rows.dtype);
        for (int tiles = 1; tiles <= most_tiles; ++tiles) {
          const std::int64_t most = size.most_rows(directions, tiles);
          StackCase stack;
          stack.descriptor = few_rows;
          stack.time = draw(3, few_rows.time);
          stack.rows =
              draw(0, 2) == 0 ? most : draw(size.most_rows(directions, tiles - 1) + 1, most);
          stack.descriptor.rows = std::clamp(stack.rows + draw(0, 3), fewest_rows(),
                                             size.most_rows(directions, most_tiles));
          fill_case(random_, stack);
          SCOPED_TRACE(fmt::format("{} blocks, {} tiles: {}", size.blocks, tiles, describe(stack)));
          ASSERT_EQ(refusal(stack.descriptor), std::nullopt);
          const Tensors got = run(stack, options());
          expect_close(got, expected(stack), tolerance());
          EXPECT_EQ(run(stack, options()), got);
          ++compared;
        }
      }
    }
  }
  if (compared == 0) GTEST_SKIP() << "the implementation refused every case";
}

// In 16 bits, layers of more than 256 units and of rows that would take two tiles run forward on
// half as many blocks with twice as many units each, if they have multiples of four.
TEST_P(RecurrentClusters, EqualOracleInHalvedClusters) {
  int compared = 0;
  for (const CellType cell : {CellType::kLstm, CellType::kGru}) {
    for (const std::int64_t directions : {1, 2}) {
      StackCase stack;
      stack.descriptor = layer_of(kSizes.back(), cell, directions);
      if (gpu_lacks(stack.descriptor)) continue;
      stack.descriptor.hidden = 4 * draw(65, 128);
      stack.descriptor.training = draw(0, 1) == 0;
      stack.time = stack.descriptor.time;
      const ClusterSize& whole = kSizes.back();
      const std::int64_t most =
          std::min(kSizes[1].most_rows(directions, 1),
                   whole.most_rows(directions, whole.most_tiles(stack.descriptor.dtype)));
      stack.descriptor.rows = draw(whole.most_rows(directions, 1) + 1, most);
      stack.rows = draw(1, stack.descriptor.rows);
      fill_case(random_, stack);
      SCOPED_TRACE(describe(stack));
      ASSERT_EQ(refusal(stack.descriptor), std::nullopt);
      const Tensors got = run(stack, options());
      expect_close(got, expected(stack), tolerance());
      EXPECT_EQ(run(stack, options()), got);
      ++compared;
    }
  }
  if (compared == 0) GTEST_SKIP() << "the implementation refused every case";
}

// Weights, states and gradients far from 1, which float16 couldn't hold: factors of float32 are
// scaled on their way to the products.
TEST_P(RecurrentClusters, EqualOracleWithFactorsOfAnySize) {
  if (precision_.storage != DType::kFloat32) GTEST_SKIP() << "of float32 and TF32 alone";
  int compared = 0;
  for (const ClusterSize& size : kSizes) {
    for (const CellType cell : {CellType::kLstm, CellType::kGru}) {
      StackCase stack;
      stack.descriptor = layer_of(size, cell, 1);
      if (gpu_lacks(stack.descriptor)) continue;
      stack.time = stack.descriptor.time;
      fill_case(random_, stack);
      if (stack.input.h0.empty()) {
        stack.input.h0.assign(static_cast<std::size_t>(stack.descriptor.hidden), 1.0);
      }
      const double large = std::ldexp(1.0, 20 + static_cast<int>(draw(0, 10)));
      for (double& h : stack.input.h0) h *= large;
      for (double& w : stack.weights.front().weight_hh) w /= large;
      for (double& d : stack.flow.dy) d *= large;
      SCOPED_TRACE(fmt::format("{} blocks, times {}: {}", size.blocks, large, describe(stack)));
      expect_close(run(stack, options()), expected(stack), tolerance());
      ++compared;
    }
  }
  if (compared == 0) GTEST_SKIP() << "the implementation refused every case";
}

// Of what cells may have beside their equations each by itself, in inference too.
TEST_P(RecurrentClusters, EqualOracleWithEachExtra) {
  int compared = 0;
  for (const ClusterSize& size : kSizes) {
    for (int which = 0; which < 8; ++which) {
      StackCase stack;
      Descriptor& d = stack.descriptor;
      d = layer_of(size, which % 4 < 3 ? CellType::kLstm : CellType::kGru, draw(1, 2));
      if (gpu_lacks(d)) continue;
      d.training = draw(0, 3) > 0;
      d.resets = which == 0 || which == 3;
      d.peepholes = which == 1;
      if (which == 2 || which == 7) d.zoneout_h = 0.3;
      if (which == 4) d.zoneout_c = 0.3;
      if (which > 4) d.recurrent_dropout = 0.6;
      stack.time = d.time;
      stack.rows = d.rows = draw(fewest_rows(), 12);  // inference may leave no extra
      fill_case(random_, stack);
      SCOPED_TRACE(fmt::format("{} blocks: {}", size.blocks, describe(stack)));
      const Tensors got = run(stack, options());
      expect_close(got, expected(stack), tolerance());
      EXPECT_EQ(run(stack, options()), got);
      ++compared;
    }
  }
  if (compared == 0) GTEST_SKIP() << "the implementation refused every case";
}

TEST_P(RecurrentClusters, EqualOracleWithMixedExtras) {
  int compared = 0;
  for (const ClusterSize& size : kSizes) {
    for (const CellType cell : {CellType::kLstm, CellType::kGru}) {
      for (const int tiles : {1, 2}) {
        StackCase stack;
        Descriptor& d = stack.descriptor;
        d = layer_of(size, cell, draw(1, 2));
        if (gpu_lacks(d)) continue;
        draw_extras(random_, d);
        d.zoneout_h = 0.2;
        d.time = stack.time = 3;
        d.rows = stack.rows = size.most_rows(d.directions, tiles - 1) + draw(1, 9);
        fill_case(random_, stack);
        SCOPED_TRACE(fmt::format("{} blocks, {} tiles: {}", size.blocks, tiles, describe(stack)));
        ASSERT_EQ(refusal(d), std::nullopt);
        RunOptions captured = options();
        captured.rounds = 3;
        const Tensors got = run(stack, captured);
        expect_close(got, expected(stack), tolerance());
        EXPECT_EQ(run(stack, options()), got);
        ++compared;
      }
    }
  }
  if (compared == 0) GTEST_SKIP() << "the implementation refused every case";
}

// In 16 bits, by itself and beside what else a cell may have, where a block has its units or some.
TEST_P(RecurrentClusters, EqualOracleWithLayerNorm) {
  if (precision_.storage == DType::kFloat32) GTEST_SKIP();
  int compared = 0;
  for (const ClusterSize& size : kSizes) {
    for (const int tiles : {1, 2}) {
      StackCase stack;
      Descriptor& d = stack.descriptor;
      d = layer_of(size, CellType::kLstm, draw(1, 2));
      // A few units may be nearly equal, of which norms would magnify the rounding.
      d.hidden = std::max<std::int64_t>(d.hidden, 12);
      if (draw(0, 1) == 0) draw_extras(random_, d);
      d.layer_norm = true;
      d.peepholes = false;
      d.training = draw(0, 3) > 0;
      if (gpu_lacks(d)) continue;
      stack.time = d.time = 3;
      stack.rows = size.most_rows(d.directions, tiles - 1) + draw(1, 9);
      d.rows = std::min(stack.rows + draw(0, 3), size.most_rows(d.directions, 2));
      fill_case(random_, stack);
      SCOPED_TRACE(fmt::format("{} blocks, {} tiles: {}", size.blocks, tiles, describe(stack)));
      RunOptions captured = options();
      captured.rounds = 3;
      const Tensors got = run(stack, captured);
      expect_close(got, expected(stack), tolerance());
      EXPECT_EQ(run(stack, options()), got);
      ++compared;
    }
  }
  if (compared == 0) GTEST_SKIP();
}

// Products, and cell states, that differ little from a mean far from zero: what norms make of them
// is what is left of the differences.
TEST_P(RecurrentClusters, EqualOracleWithLayerNormFarFromZero) {
  if (precision_.storage == DType::kFloat32) GTEST_SKIP();
  int compared = 0;
  for (const ClusterSize& size : kSizes) {
    StackCase stack;
    Descriptor& d = stack.descriptor;
    d = layer_of(size, CellType::kLstm, 1);
    d.hidden = std::max<std::int64_t>(d.hidden, 12);
    d.layer_norm = true;
    if (gpu_lacks(d)) continue;
    stack.time = d.time = 2;
    stack.rows = d.rows = draw(1, 5);
    fill_case(random_, stack);
    stack.input.lengths.clear();
    // Of h0 = 1 all units' products are about 100, and differ by one.
    const auto states = static_cast<std::size_t>(d.rows * d.hidden);
    stack.input.h0.assign(states, 1.0);
    const double mean = std::exp2(std::round(std::log2(100.0 / static_cast<double>(d.hidden))));
    for (std::size_t i = 0; i < stack.weights.front().weight_hh.size(); ++i) {
      const bool raised = static_cast<std::int64_t>(i) % d.hidden == 0;
      stack.weights.front().weight_hh[i] =
          mean + (raised ? std::ldexp(static_cast<double>(draw(-8, 8)), -2) * mean : 0.0);
    }
    stack.input.c0.assign(states, 64.0);
    stack.flow = {};
    stack.want_gradients = stack.want_dx = false;
    SCOPED_TRACE(fmt::format("{} blocks: {}", size.blocks, describe(stack)));
    d.training = false;
    expect_close(run(stack, options()), expected(stack), tolerance());
    ++compared;
  }
  if (compared == 0) GTEST_SKIP();
}

// Which also holds the rows above against those of the launch.
TEST_P(RecurrentClusters, RefuseOneRowTooMany) {
  int asked = 0;
  for (const ClusterSize& size : kSizes) {
    for (const CellType cell : {CellType::kLstm, CellType::kGru}) {
      for (const std::int64_t directions : {1, 2}) {
        for (const bool extras : {false, true}) {
          Descriptor layer = layer_of(size, cell, directions);
          if (gpu_lacks(layer)) continue;
          layer.resets = extras;
          const std::int64_t most =
              size.most_rows(directions, size.most_tiles(layer.dtype, extras));
          SCOPED_TRACE(
              fmt::format("{} blocks, {} directions, extras {}", size.blocks, directions, extras));
          layer.rows = most;
          EXPECT_EQ(refusal(layer), std::nullopt);
          layer.rows = most + 1;
          EXPECT_EQ(refusal(layer),
                    fmt::format("its clusters take {} rows at once, not {}", most, most + 1));
          ++asked;
        }
      }
    }
  }
  if (asked == 0) GTEST_SKIP() << "the implementation refused every case";
}

TEST_P(RecurrentClusters, LeaveFewRowsOfFloat32ToTheWholeGpu) {
  if (precision_.storage != DType::kFloat32) GTEST_SKIP() << "of float32 and TF32 alone";
  Descriptor layer = layer_of(kSizes.back(), CellType::kLstm, 1);
  if (gpu_lacks(layer)) GTEST_SKIP() << "this GPU is none that the implementation runs on";
  layer.rows = 4;
  layer.tf32 = precision_.tf32;
  EXPECT_EQ(refusal(layer).has_value(), !precision_.tf32);
  layer.tf32 = false;
  layer.resets = true;
  EXPECT_EQ(refusal(layer), std::nullopt);
  layer.resets = false;
  layer.hidden = 256;
  EXPECT_EQ(refusal(layer), std::nullopt);
}

TEST_P(RecurrentClusters, RefuseLayerNormOfFloat32) {
  Descriptor layer = layer_of(kSizes.front(), CellType::kLstm, 1);
  if (gpu_lacks(layer)) GTEST_SKIP() << "this GPU is none that the implementation runs on";
  layer.layer_norm = true;
  if (precision_.storage == DType::kFloat32) {
    EXPECT_EQ(refusal(layer), "with layer norm it computes bfloat16 and float16");
  } else {
    EXPECT_EQ(refusal(layer), std::nullopt);
  }
}

TEST_P(RecurrentClusters, RefuseSingleSteps) {
  Descriptor layer = layer_of(kSizes.front(), CellType::kLstm, 1);
  if (gpu_lacks(layer)) GTEST_SKIP() << "this GPU is none that the implementation runs on";
  layer.time = 1;
  EXPECT_TRUE(refusal(layer).has_value());
}

}  // namespace
}  // namespace sluice::kernels::recurrent::testing
