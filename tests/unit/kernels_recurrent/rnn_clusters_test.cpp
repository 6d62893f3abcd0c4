#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "unit/kernels_recurrent/cluster_case.h"

namespace sluice::kernels::recurrent::testing {
namespace {

constexpr int kBlockUnits = 128;

/// Of so many blocks as many clusters run at once, with up to so many tiles.
struct RnnClusterSize {
  int blocks, clusters, most_tiles;

  std::int64_t most_units() const { return blocks * kBlockUnits; }
  std::int64_t fewest_units() const { return blocks == 1 ? 6 : most_units() / 2 + 1; }
  /// Of one direction, with so many tiles a cluster.
  std::int64_t most_rows(std::int64_t directions, int tiles) const {
    return clusters / directions * kTileRows * tiles;
  }
};
constexpr std::array kRnnSizes{RnnClusterSize{1, 132, 2}, RnnClusterSize{2, 66, 2},
                               RnnClusterSize{4, 30, 2}, RnnClusterSize{8, 15, 1}};

/// Plain RNNs, at every number of blocks and tiles.
class RecurrentRnnClusters : public OnClusters {
 protected:
  bool has(const RnnClusterSize& size, CellType cell) const {
    return !is_float32() || (size.blocks <= 4 && cell == CellType::kRnnTanh);
  }

  /// One layer of a few steps, as wide as the cluster or less.
  Descriptor layer_of(const RnnClusterSize& size, CellType cell, std::int64_t directions) {
    Descriptor d;
    d.cell = cell;
    d.directions = directions;
    d.input = draw(6, 40);
    d.hidden =
        draw(0, 2) == 0 ? size.most_units() : draw(size.fewest_units(), size.most_units() - 1);
    if (draw(0, 1) == 0) d.hidden = (d.hidden + 3) / 4 * 4;  // four units at once
    d.time = draw(3, 6);
    d.rows = 5;
    d.dtype = precision_.storage;
    d.training = true;
    return d;
  }

  /// Fills in the case. In storage's precision sums near ReLU's kink fall on either side of it:
  /// they are kept away by the biases, which outweigh all else.
  void fill(StackCase& stack) {
    Descriptor& d = stack.descriptor;
    if (d.cell != CellType::kRnnRelu) return fill_case(random_, stack);
    const bool training = d.training;
    d.training = false;
    fill_case(random_, stack);
    d.training = training;
    for (auto& weights : stack.weights) {
      for (auto* matrix : {&weights.weight_ih, &weights.weight_hh}) {
        for (double& w : *matrix) w /= 8;
      }
      for (double& b : weights.bias_ih) b = draw(0, 1) == 0 ? -2 : 2;
      std::ranges::fill(weights.bias_hh, 0.0);
    }
    for (double& h : stack.input.h0) h /= 4;
  }
};

INSTANTIATE_TEST_SUITE_P(, RecurrentRnnClusters,
                         ::testing::Combine(sluice::testing::devices(),
                                            ::testing::Values("bfloat16", "float16", "tf32",
                                                              "float32")),
                         cluster_parameter_name);

TEST_P(RecurrentRnnClusters, EqualOracleAtEveryNumberOfBlocksAndTiles) {
  for (const RnnClusterSize& size : kRnnSizes) {
    for (const CellType cell : {CellType::kRnnTanh, CellType::kRnnRelu}) {
      if (!has(size, cell)) continue;
      for (int tiles = 1; tiles <= size.most_tiles; ++tiles) {
        StackCase stack;
        Descriptor& d = stack.descriptor;
        d = layer_of(size, cell, draw(1, 2));
        d.time = 3;  // the oracle takes seconds
        if (gpu_lacks(d)) continue;
        d.training = draw(0, 3) > 0;
        const std::int64_t most = size.most_rows(d.directions, tiles);
        stack.time = draw(2, d.time);
        stack.rows =
            draw(0, 2) == 0 ? most : draw(size.most_rows(d.directions, tiles - 1) + 1, most);
        d.rows = std::min(stack.rows + draw(0, 3), size.most_rows(d.directions, size.most_tiles));
        fill(stack);
        SCOPED_TRACE(fmt::format("{} blocks, {} tiles: {}", size.blocks, tiles, describe(stack)));
        compare(stack);
      }
    }
  }
}

// As little as a launch can be asked for, once for each number of blocks.
TEST_P(RecurrentRnnClusters, EqualOracleInTheSmallestLayers) {
  for (const RnnClusterSize& size : kRnnSizes) {
    if (!has(size, CellType::kRnnTanh)) continue;
    StackCase stack;
    Descriptor& d = stack.descriptor;
    d = layer_of(size, CellType::kRnnTanh, 1);
    d.hidden = size.fewest_units();
    stack.time = d.time = 3;
    stack.rows = d.rows = 1;
    if (gpu_lacks(d)) continue;
    fill(stack);
    SCOPED_TRACE(describe(stack));
    compare(stack);
  }
}

// A few rows, as most launches have, of which many cases take no time; captured, too.
TEST_P(RecurrentRnnClusters, EqualOracleInFewRows) {
  for (int trial = 0; trial < 16; ++trial) {
    const RnnClusterSize& size = kRnnSizes[static_cast<std::size_t>(trial) % kRnnSizes.size()];
    const CellType cell = draw(0, 1) == 0 ? CellType::kRnnTanh : CellType::kRnnRelu;
    if (!has(size, cell)) continue;
    StackCase stack;
    stack.descriptor = layer_of(size, cell, draw(1, 2));
    stack.descriptor.time = draw(3, 12);
    stack.descriptor.rows = draw(1, 12);
    stack.descriptor.training = draw(0, 3) > 0;
    if (gpu_lacks(stack.descriptor)) continue;
    stack.time = stack.descriptor.time - draw(0, 1);
    stack.rows = draw(1, stack.descriptor.rows);
    fill(stack);
    SCOPED_TRACE(describe(stack));
    RunOptions captured = options();
    captured.rounds = 3;
    compare(stack, captured);
  }
}

// Layers overlapped with each other, in pieces of time.
TEST_P(RecurrentRnnClusters, EqualOracleInPieces) {
  for (int trial = 0; trial < 8; ++trial) {
    const bool relu = draw(0, 1) == 1 && has(kRnnSizes.front(), CellType::kRnnRelu);
    const CellType cell = relu ? CellType::kRnnRelu : CellType::kRnnTanh;
    StackCase stack;
    Descriptor& d = stack.descriptor;
    d = layer_of(kRnnSizes[static_cast<std::size_t>(trial) % 2], cell, 1);
    d.layers = draw(2, 4);
    d.training = draw(0, 2) > 0;
    // fill() leaves a ReLU's case without masks between layers.
    if (cell == CellType::kRnnTanh && draw(0, 1) == 0) d.dropout = 0.3;
    stack.time = draw(9, 40);
    stack.rows = draw(1, 20);
    d.time = stack.time + draw(0, 20);
    d.rows = stack.rows + draw(0, 3);
    if (gpu_lacks(d)) continue;
    fill(stack);
    SCOPED_TRACE(describe(stack));
    compare(stack);
  }
}

// States and gradients far from 1, which float16 couldn't hold: factors of float32 are scaled on
// their way to the products.
TEST_P(RecurrentRnnClusters, EqualOracleWithFactorsOfAnySize) {
  if (!is_float32()) GTEST_SKIP() << "16-bit factors are not scaled";
  for (const RnnClusterSize& size : kRnnSizes) {
    if (!has(size, CellType::kRnnTanh)) continue;
    StackCase stack;
    stack.descriptor = layer_of(size, CellType::kRnnTanh, 1);
    if (gpu_lacks(stack.descriptor)) continue;
    stack.time = stack.descriptor.time;
    stack.rows = stack.descriptor.rows;
    fill(stack);
    enlarge(stack);
    SCOPED_TRACE(fmt::format("{} blocks: {}", size.blocks, describe(stack)));
    expect_accurate(run(stack, options()), stack, {.tf32 = precision_.tf32});
  }
}

TEST_P(RecurrentRnnClusters, RefuseOneRowTooMany) {
  for (const RnnClusterSize& size : kRnnSizes) {
    if (!has(size, CellType::kRnnTanh)) continue;
    for (const std::int64_t directions : {1, 2}) {
      Descriptor layer = layer_of(size, CellType::kRnnTanh, directions);
      if (gpu_lacks(layer)) continue;
      const std::int64_t most = size.most_rows(directions, size.most_tiles);
      SCOPED_TRACE(fmt::format("{} blocks, {} directions", size.blocks, directions));
      expect_most_rows(layer, most);
    }
  }
}

TEST_P(RecurrentRnnClusters, RefuseWhatTheyHaveNot) {
  Descriptor layer = layer_of(kRnnSizes.front(), CellType::kRnnTanh, 1);
  if (gpu_lacks(layer)) GTEST_SKIP() << "this GPU cannot run the implementation";
  layer.resets = true;
  EXPECT_EQ(refusal(layer), "of plain RNNs it has the equations alone");
  layer.resets = false;
  const int most = is_float32() ? 512 : 1024;
  layer.hidden = most + 1;
  EXPECT_EQ(refusal(layer), fmt::format("a cluster holds the recurrent weights of {} units, not of "
                                        "{}",
                                        most, most + 1));
  layer.hidden = 100;
  layer.cell = CellType::kRnnRelu;
  EXPECT_EQ(refusal(layer).has_value(), is_float32());
}

}  // namespace
}  // namespace sluice::kernels::recurrent::testing
