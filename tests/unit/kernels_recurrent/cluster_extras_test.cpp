#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "unit/kernels_recurrent/cluster_case.h"

namespace sluice::kernels::recurrent::testing {
namespace {

/// Cells with more than their equations.
class RecurrentClustersWithExtras : public RecurrentClusters {};

INSTANTIATE_TEST_SUITE_P(, RecurrentClustersWithExtras,
                         ::testing::Combine(sluice::testing::devices(),
                                            ::testing::Values("bfloat16", "float16", "tf32",
                                                              "float32")),
                         cluster_parameter_name);

// Each option of cells beyond the plain equations by itself, in inference too.
TEST_P(RecurrentClustersWithExtras, EqualOracleWithEachExtra) {
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
      compare(stack);
    }
  }
}

TEST_P(RecurrentClustersWithExtras, EqualOracleWithMixedExtras) {
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
        RunOptions captured = options();
        captured.rounds = 3;
        compare(stack, captured);
      }
    }
  }
}

// In 16 bits, by itself and beside what else a cell may have, where a block has its units or some.
TEST_P(RecurrentClustersWithExtras, EqualOracleWithLayerNorm) {
  if (precision_.storage == DType::kFloat32)
    GTEST_SKIP() << "the implementation has layer norm in 16 bits only";
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
      compare(stack, captured);
    }
  }
}

// Products, and cell states, that differ little from a mean far from zero: what norms make of them
// is what is left of the differences.
TEST_P(RecurrentClustersWithExtras, EqualOracleWithLayerNormFarFromZero) {
  if (precision_.storage == DType::kFloat32)
    GTEST_SKIP() << "the implementation has layer norm in 16 bits only";
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
    expect_accurate(run(stack, options()), stack, {.tf32 = precision_.tf32});
  }
}

TEST_P(RecurrentClustersWithExtras, RefuseLayerNormOfFloat32) {
  Descriptor layer = layer_of(kSizes.front(), CellType::kLstm, 1);
  if (gpu_lacks(layer)) GTEST_SKIP() << "this GPU cannot run the implementation";
  layer.layer_norm = true;
  if (precision_.storage == DType::kFloat32) {
    EXPECT_EQ(refusal(layer), "with layer norm it computes bfloat16 and float16");
  } else {
    EXPECT_EQ(refusal(layer), std::nullopt);
  }
}

}  // namespace
}  // namespace sluice::kernels::recurrent::testing
