#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "unit/kernels_recurrent/cluster_case.h"

namespace sluice::kernels::recurrent::testing {
namespace {

INSTANTIATE_TEST_SUITE_P(, RecurrentClusters,
                         ::testing::Combine(sluice::testing::devices(),
                                            ::testing::Values("bfloat16", "float16", "tf32",
                                                              "float32")),
                         cluster_parameter_name);

TEST_P(RecurrentClusters, EqualOracleAtEveryNumberOfTiles) {
  for (const ClusterSize& size : kSizes) {
    for (const CellType cell : {CellType::kLstm, CellType::kGru}) {
      for (const std::int64_t directions : {1, 2}) {
        const Descriptor few_rows = layer_of(size, cell, directions);
        if (gpu_lacks(few_rows)) continue;
        const int most_tiles = size.most_tiles(few_rows.dtype);
        for (int tiles = 1; tiles <= most_tiles; ++tiles) {
          const std::int64_t most = size.most_rows(directions, tiles);
          StackCase stack;
          stack.descriptor = tiles == most_tiles ? for_most_rows(few_rows) : few_rows;
          stack.time = draw(3, few_rows.time);
          stack.rows =
              draw(0, 2) == 0 ? most : draw(size.most_rows(directions, tiles - 1) + 1, most);
          stack.descriptor.rows = std::clamp(stack.rows + draw(0, 3), fewest_rows(),
                                             size.most_rows(directions, most_tiles));
          fill_case(random_, stack);
          SCOPED_TRACE(fmt::format("{} blocks, {} tiles: {}", size.blocks, tiles, describe(stack)));
          compare(stack);
        }
      }
    }
  }
}

// In 16 bits, layers of more than 256 units and of rows that would take two tiles run forward on
// half as many blocks with twice as many units each, if they have multiples of four.
TEST_P(RecurrentClusters, EqualOracleInHalvedClusters) {
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
      compare(stack);
    }
  }
}

// Weights, states and gradients far from 1, which float16 couldn't hold: factors of float32 are
// scaled on their way to the products.
TEST_P(RecurrentClusters, EqualOracleWithFactorsOfAnySize) {
  if (!is_float32()) GTEST_SKIP() << "this is a test of float32 and TF32";
  for (const ClusterSize& size : kSizes) {
    for (const CellType cell : {CellType::kLstm, CellType::kGru}) {
      StackCase stack;
      stack.descriptor = layer_of(size, cell, 1);
      if (gpu_lacks(stack.descriptor)) continue;
      stack.time = stack.descriptor.time;
      fill_case(random_, stack);
      enlarge(stack);
      SCOPED_TRACE(fmt::format("{} blocks: {}", size.blocks, describe(stack)));
      expect_accurate(run(stack, options()), stack, {.tf32 = precision_.tf32});
    }
  }
}

TEST_P(RecurrentClusters, RefuseOneRowTooMany) {
  for (const ClusterSize& size : kSizes) {
    for (const CellType cell : {CellType::kLstm, CellType::kGru}) {
      for (const std::int64_t directions : {1, 2}) {
        for (const bool extras : {false, true}) {
          Descriptor layer = for_most_rows(layer_of(size, cell, directions));
          if (gpu_lacks(layer)) continue;
          layer.resets = extras;
          const std::int64_t most =
              size.most_rows(directions, size.most_tiles(layer.dtype, extras));
          SCOPED_TRACE(
              fmt::format("{} blocks, {} directions, extras {}", size.blocks, directions, extras));
          expect_most_rows(layer, most);
        }
      }
    }
  }
}

TEST_P(RecurrentClusters, LeaveFewRowsOfFloat32ToTheWholeGpu) {
  if (!is_float32()) GTEST_SKIP() << "this is a test of float32 and TF32";
  Descriptor layer = layer_of(kSizes.back(), CellType::kLstm, 1);
  if (gpu_lacks(layer)) GTEST_SKIP() << "this GPU cannot run the implementation";
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

TEST_P(RecurrentClusters, RefuseSingleSteps) {
  Descriptor layer = layer_of(kSizes.front(), CellType::kLstm, 1);
  if (gpu_lacks(layer)) GTEST_SKIP() << "this GPU cannot run the implementation";
  layer.time = 1;
  EXPECT_TRUE(refusal(layer).has_value());
}

}  // namespace
}  // namespace sluice::kernels::recurrent::testing
