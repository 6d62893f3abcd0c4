#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "base/dtype.h"
#include "unit/kernels_recurrent/on_candidate.h"
#include "unit/kernels_recurrent/stack_case.h"
#include "unit/kernels_recurrent/stack_comparison.h"
#include "unit/support/on_device.h"

namespace sluice::kernels::recurrent::testing {
namespace {

constexpr std::string_view kBothPasses = "persistent-streamed",
                           kForwardAlone = "persistent-streamed-forward";

std::string parameter_name(
    const ::testing::TestParamInfo<std::tuple<const char*, DType>>& parameter) {
  return fmt::format("{}_{}", std::get<0>(parameter.param),
                     base::name_of(std::get<1>(parameter.param)));
}

/// Layers in one launch over the whole GPU, whose weights come anew in each step as far as they
/// don't fit on chip: only on devices that have them.
class RecurrentStreamed : public OnCandidate<std::tuple<const char*, DType>> {
 protected:
  RecurrentStreamed() : OnCandidate(kBothPasses) {}

  Descriptor layer_of(CellType cell, std::int64_t hidden, std::int64_t rows) {
    Descriptor d;
    d.cell = cell;
    d.input = draw(6, 20);
    d.hidden = hidden;
    d.rows = rows;
    d.dtype = std::get<1>(GetParam());
    d.training = true;
    return d;
  }

  /// Runs a layer that is planned for up to so many rows and compares.
  void compare(Descriptor layer, std::int64_t time) {
    StackCase stack;
    layer.time = time + draw(0, 1);
    stack.descriptor = layer;
    stack.time = time;
    stack.rows = draw((layer.rows + 1) / 2, layer.rows);
    fill_case(random_, stack);
    SCOPED_TRACE(describe(stack));
    if (gpu_lacks(layer)) return;
    const Tensors got = run(stack, options());
    expect_accurate(got, stack);
    EXPECT_EQ(run(stack, options()), got);
  }
};

INSTANTIATE_TEST_SUITE_P(, RecurrentStreamed,
                         ::testing::Combine(sluice::testing::devices(),
                                            ::testing::Values(DType::kBFloat16, DType::kFloat16)),
                         parameter_name);

// One cluster and several, with fewer chunks than registers take and with more.
TEST_P(RecurrentStreamed, EqualsOracleWithWeightsOnChip) {
  for (const CellType cell : {CellType::kLstm, CellType::kGru}) {
    for (const std::int64_t rows : {1, 8, 20, 32}) {
      compare(layer_of(cell, draw(1, 100), rows), 7);
      compare(layer_of(cell, draw(101, 900), rows), 5);
    }
  }
}

// Widths of which a part of the weights is streamed, in one pass or both.
TEST_P(RecurrentStreamed, EqualsOracleWithStreamedWeights) {
  compare(layer_of(CellType::kLstm, draw(1921, 2112), 16), 2);
  compare(layer_of(CellType::kGru, draw(2113, 2640), 16), 3);
  compare(layer_of(CellType::kGru, draw(2641, 2880), 8), 2);
}

// Each cluster has a few rows of weights beyond what its tiles hold.
TEST_P(RecurrentStreamed, EqualsOracleWithSlotsBesideTiles) {
  compare(layer_of(CellType::kGru, 2816, 32), 2);
}

// Few enough steps for compute-sanitizer.
TEST_P(RecurrentStreamed, EqualsOracleInTwoStepsWithWholeDepth) {
  Descriptor layer = layer_of(CellType::kLstm, draw(2113, 2200), 8);
  layer.training = false;
  compare(layer, 2);
}

// Wider layers, whose blocks multiply the whole depth, and whose weights L2 may not
// hold.
TEST_P(RecurrentStreamed, EqualsOracleWithWholeDepthInABlock) {
  compare(layer_of(CellType::kLstm, draw(2113, 2500), 32), 3);
  for (const CellType cell : {CellType::kLstm, CellType::kGru}) {
    Descriptor inference = layer_of(cell, draw(2905, 3168), 32);
    inference.training = false;
    compare(inference, 3);
  }
  // With four warpgroups for the cells.
  Descriptor widest = layer_of(CellType::kLstm, draw(3169, 4224), 32);
  widest.training = false;
  compare(widest, 2);
}

// What was packed for 32 rows is what a run of one multiplies, in memory that is divided otherwise.
TEST_P(RecurrentStreamed, EqualsOracleWithFewerRowsThanPlanned) {
  std::vector<Descriptor> layers{layer_of(CellType::kLstm, draw(2113, 2880), 32),
                                 layer_of(CellType::kGru, draw(2641, 2880), 32),
                                 layer_of(CellType::kLstm, draw(3169, 4224), 32)};
  layers.back().training = false;
  for (Descriptor& layer : layers) {
    StackCase all;
    layer.time = all.time = 3;
    all.descriptor = layer;
    all.rows = layer.rows;
    all.want_gradients = false;
    fill_case(random_, all);
    SCOPED_TRACE(describe(all));
    if (gpu_lacks(layer)) continue;
    const StackCase one = single_row(all, draw(0, all.rows - 1));
    const std::vector<Tensors> got = run_all({all, one}, options());
    expect_accurate(got[0], all);
    expect_accurate(got[1], one);
  }
}

// Backward steps are kernels of their own, which read what the launch has left.
TEST_P(RecurrentStreamed, EqualsOracleForward) {
  take(kForwardAlone);
  for (const CellType cell : {CellType::kLstm, CellType::kGru}) {
    for (const std::int64_t rows : {1, 8, 20, 32}) compare(layer_of(cell, draw(1, 300), rows), 5);
  }
  compare(layer_of(CellType::kLstm, 2560, 16), 3);
  compare(layer_of(CellType::kGru, draw(2881, 2944), 16), 2);
}

TEST_P(RecurrentStreamed, RefusesWhatDoesNotFit) {
  Descriptor layer = layer_of(CellType::kGru, 2880, 32);
  layer.time = 2;
  if (gpu_lacks(layer)) GTEST_SKIP() << "this GPU cannot run the implementation";
  layer.rows = 33;
  EXPECT_EQ(refusal(layer), "it runs up to 32 rows, not 33");
  layer.rows = 32;
  layer.hidden = 2881;
  EXPECT_EQ(refusal(layer), "2881 units are more than its blocks multiply");
  layer.training = false;
  EXPECT_EQ(refusal(layer), std::nullopt);
  layer.hidden = 3169;
  EXPECT_EQ(refusal(layer), "3169 units are more than its blocks multiply");
  layer.cell = CellType::kLstm;
  layer.hidden = 4224;
  EXPECT_EQ(refusal(layer), std::nullopt);
  layer.hidden = 4225;
  EXPECT_EQ(refusal(layer), "4225 units are more than its blocks multiply");
  layer.training = true;
  layer.hidden = 2881;
  EXPECT_EQ(refusal(layer), "2881 units are more than its blocks multiply");
  take(kForwardAlone);
  EXPECT_EQ(refusal(layer), std::nullopt);
  layer.training = false;
  EXPECT_EQ(refusal(layer), "it differs from the launch of both passes in backward alone");
  take(kBothPasses);
  layer.hidden = 512;
  layer.directions = 2;
  EXPECT_EQ(refusal(layer), "it runs one direction");
}

}  // namespace
}  // namespace sluice::kernels::recurrent::testing
