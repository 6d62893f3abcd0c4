#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <tuple>

#include "base/dtype.h"
#include "unit/kernels_recurrent/on_candidate.h"
#include "unit/kernels_recurrent/stack_case.h"
#include "unit/kernels_recurrent/stack_comparison.h"
#include "unit/support/on_device.h"
#include "unit/support/temporary_folder.h"

namespace sluice::kernels::recurrent::testing {
namespace {

constexpr std::string_view kBothPasses = "persistent-wide", kForward = "persistent-forward";

/// A device and a precision.
using Parameter = std::tuple<const char*, const char*>;

std::string parameter_name(const ::testing::TestParamInfo<Parameter>& parameter) {
  return fmt::format("{}_{}", std::get<0>(parameter.param), std::get<1>(parameter.param));
}

/// Layers in one launch over the whole GPU, at widths and batches that small random cases never
/// have: only on devices that have them.
class RecurrentWide : public OnCandidate<Parameter> {
 protected:
  RecurrentWide() : OnCandidate(kBothPasses) {}

  /// One layer that is planned for training.
  Descriptor layer_of(CellType cell, std::int64_t directions, std::int64_t hidden) {
    Descriptor d;
    d.cell = cell;
    d.directions = directions;
    d.input = draw(6, 20);
    d.hidden = hidden;
    d.time = 6;
    d.rows = 40;
    d.dtype = precision_.storage;
    d.tf32 = precision_.tf32;
    d.training = true;
    return d;
  }
  RunOptions options() const {
    RunOptions options = OnCandidate::options();
    options.tf32 = precision_.tf32;
    return options;
  }

  /// Runs a layer that is planned for up to so many rows, with half of them or more, and compares.
  void compare(const Descriptor& layer, std::int64_t time, std::int64_t most_rows) {
    compare(layer, time, most_rows, draw((most_rows + 1) / 2, most_rows));
  }
  void compare(Descriptor layer, std::int64_t time, std::int64_t most_rows, std::int64_t rows) {
    StackCase stack;
    layer.time = time + draw(0, 1);
    layer.rows = most_rows;
    stack.descriptor = layer;
    stack.time = time;
    stack.rows = rows;
    fill_case(random_, stack);
    SCOPED_TRACE(describe(stack));
    if (gpu_lacks(layer)) return;
    const Tensors got = run(stack, options());
    expect_accurate(got, stack, {.tf32 = precision_.tf32});
    EXPECT_EQ(run(stack, options()), got);
  }

  /// Operations queued one by one, and as a graph has them, give the same bits.
  void compare_queued_and_captured(const StackCase& stack) {
    SCOPED_TRACE(describe(stack));
    if (gpu_lacks(stack.descriptor)) return;
    const Tensors queued = run(stack, options());
    expect_accurate(queued, stack, {.tf32 = precision_.tf32});
    RunOptions captured = options();
    captured.rounds = 3;
    EXPECT_EQ(run(stack, captured), queued);
  }

  const runtime::Precision precision_ = runtime::Precision::parse(std::get<1>(GetParam()));
};

INSTANTIATE_TEST_SUITE_P(, RecurrentWide,
                         ::testing::Combine(sluice::testing::devices(),
                                            ::testing::Values("bfloat16", "float16", "tf32")),
                         parameter_name);

// Each takes another number of stages of the ring, and the last but one of each no whole chunk.
TEST_P(RecurrentWide, EqualsOracleAtEveryDepth) {
  for (const CellType cell : {CellType::kLstm, CellType::kGru}) {
    for (const std::int64_t most : {512, 768, 1024}) {
      compare(layer_of(cell, 1, most), 3, 128);
      compare(layer_of(cell, 1, draw(most - 255, most - 1)), 3, 128);
    }
  }
}

// What is beyond a depth of 1024, or 4096 gates of four blocks, is in shared memory.
TEST_P(RecurrentWide, EqualsOracleWithWeightsInSharedMemory) {
  for (const CellType cell : {CellType::kLstm, CellType::kGru}) {
    compare(layer_of(cell, 1, draw(1025, 1280)), 5, 64);
    compare(layer_of(cell, 1, draw(1281, 1920)), 2, 8);
    Descriptor inference = layer_of(cell, 1, draw(1921, 2048));
    inference.training = false;
    compare(inference, 2, 40);
    compare(layer_of(cell, 1, 1536), 2, 16);
  }
}

// Their backward steps are kernels of their own, which read what one launch has left.
TEST_P(RecurrentWide, EqualsOracleForward) {
  take(kForward);
  for (const CellType cell : {CellType::kLstm, CellType::kGru}) {
    compare(layer_of(cell, 1, 2048), 2, 16);
    compare(layer_of(cell, 1, draw(1921, 2047)), 3, 8);
    compare(layer_of(cell, 1, draw(257, 330)), 5, 64);
  }
}

// Of a tile that is the only one as many lines are copied as it has rows, in eights.
TEST_P(RecurrentWide, EqualsOracleWithFewRows) {
  for (const CellType cell : {CellType::kLstm, CellType::kGru}) {
    for (const std::int64_t rows : {1, 8, 16, 24}) {
      compare(layer_of(cell, 1, draw(257, 1024)), 3, rows);
    }
  }
}

TEST_P(RecurrentWide, EqualsOracleWithSeveralLayers) {
  for (const CellType cell : {CellType::kLstm, CellType::kGru}) {
    Descriptor stack = layer_of(cell, 1, draw(257, 330));
    stack.layers = 2;
    compare(stack, 4, 96);
    stack = layer_of(cell, 2, draw(40, 100));
    stack.layers = 4;
    compare(stack, 4, 96);
    stack = layer_of(cell, 1, draw(290, 384));
    stack.layers = 3;
    compare(stack, 3, 400);
  }
}

// Of long launches of many rows the first half's gradient of the input is multiplied while they
// take the other half, overlapped with the weight gradients of the layer above.
TEST_P(RecurrentWide, HasTheSameBitsQueuedAndCapturedBesideItsProducts) {
  for (const CellType cell : {CellType::kLstm, CellType::kGru}) {
    StackCase stack;
    // Of 128 units forward leaves dropout's masks as bits.
    const bool drops = draw(0, 1) == 1;
    stack.descriptor = layer_of(cell, 1, drops ? 128 : draw(40, 100));
    stack.descriptor.layers = draw(1, 4);
    stack.descriptor.dropout = drops ? 0.3 : 0;
    stack.descriptor.time = stack.time = draw(22, 27);
    stack.descriptor.rows = stack.rows = draw(94, 128);
    fill_case(random_, stack);
    stack.input.lengths.clear();
    compare_queued_and_captured(stack);
  }
}

// Long sequences of several layers are taken in two halves, a layer's second one overlapped with
// the first one of the layer above: rows end in either half, or in none.
TEST_P(RecurrentWide, EqualsOracleInHalves) {
  for (const CellType cell : {CellType::kLstm, CellType::kGru}) {
    for (const bool training : {true, false}) {
      StackCase stack;
      stack.descriptor = layer_of(cell, 1, draw(40, 150));
      stack.descriptor.layers = draw(2, 4);
      stack.descriptor.dropout = draw(0, 1) * 0.3;
      stack.descriptor.training = training;
      stack.time = draw(16, 27);
      stack.descriptor.time = stack.time + draw(0, 3);
      stack.rows = draw(1, 100);
      stack.descriptor.rows = stack.rows + draw(0, 40);
      fill_case(random_, stack);
      compare_queued_and_captured(stack);
    }
  }
}

// With up to four tiles to a block of a half.
TEST_P(RecurrentWide, EqualsOracleInHalvesWithManyRows) {
  for (const CellType cell : {CellType::kLstm, CellType::kGru}) {
    StackCase stack;
    stack.descriptor = layer_of(cell, 1, draw(450, 530));
    stack.descriptor.layers = 2;
    stack.descriptor.training = false;
    stack.time = stack.descriptor.time = draw(32, 35);
    stack.rows = stack.descriptor.rows = draw(65, 128);
    fill_case(random_, stack);
    SCOPED_TRACE(describe(stack));
    if (gpu_lacks(stack.descriptor)) return;
    const Tensors got = run(stack, options());
    expect_accurate(got, stack, {.tf32 = precision_.tf32});
    EXPECT_EQ(run(stack, options()), got);
  }
}

// Blocks take one tile after the other, up to more than a ring holds.
TEST_P(RecurrentWide, EqualsOracleWithManyRows) {
  compare(layer_of(CellType::kLstm, 1, draw(257, 330)), 4, 480);
  compare(layer_of(CellType::kLstm, 2, draw(490, 530)), 3, 128);
  Descriptor inference = layer_of(CellType::kLstm, 1, draw(513, 570));
  inference.training = false;
  compare(inference, 3, 510);
  compare(layer_of(CellType::kGru, 1, draw(257, 330)), 4, 320);
  compare(layer_of(CellType::kGru, 2, draw(450, 512)), 3, 64);
}

// Of widths that are multiples of 8 TMA reads what cells of three or more tiles take
// back, lines past the end of the rows as well.
TEST_P(RecurrentWide, EqualsOracleWithInputsInBoxes) {
  for (const CellType cell : {CellType::kLstm, CellType::kGru}) {
    // A forward launch takes four tiles of a GRU at most.
    const bool lstm = cell == CellType::kLstm;
    compare(layer_of(cell, 1, 8 * draw(65, 80)), 3, lstm ? 400 : 384, draw(320, 384));
    compare(layer_of(cell, 2, 8 * draw(49, 56)), 2, lstm ? 320 : 256, draw(200, 256));
    Descriptor stack = layer_of(cell, 1, 8 * draw(81, 88));
    stack.layers = 2;
    compare(stack, 2, draw(320, 330));
  }
}

// TMA reads dy where it begins at a multiple of 16 bytes.
TEST_P(RecurrentWide, RefusesGradientsThatBeginAnywhere) {
  StackCase stack;
  do {
    stack = StackCase{};
    stack.descriptor = layer_of(CellType::kLstm, 1, 520);
    stack.descriptor.time = stack.time = 2;
    stack.rows = stack.descriptor.rows;
    fill_case(random_, stack);
  } while (stack.flow.dy.empty());
  if (gpu_lacks(stack.descriptor)) return;
  stack.dy_skips = draw(1, 3);
  const Error error = sluice::testing::error_of([&] { run(stack, options()); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(std::string_view(error.what()),
            "dy of a recurrent layer begins at an address that is no multiple of 16 bytes; copy it "
            "to one that is");
}

// More than four tiles of a block have several launches in backward, of four to eight each in 16
// bits.
TEST_P(RecurrentWide, EqualsOracleWithLaunchesForSomeOfTheRows) {
  for (const CellType cell : {CellType::kLstm, CellType::kGru}) {
    compare(layer_of(cell, 2, draw(451, 512)), 2, draw(200, 240));
  }
  compare(layer_of(CellType::kLstm, 2, 8 * draw(57, 64)), 2, draw(500, 512));
  compare(layer_of(CellType::kLstm, 1, draw(700, 768)), 2, draw(290, 330));
  // Beside each of them run parts of the weight gradients of the layer above. GRUs take so many
  // rows where a forward launch has room for three groups of blocks and one of backward for two.
  for (const CellType cell : {CellType::kLstm, CellType::kGru}) {
    StackCase stack;
    stack.descriptor = layer_of(cell, 1, draw(641, 704));
    stack.descriptor.layers = 2;
    stack.descriptor.time = stack.time = 2;
    stack.descriptor.rows = stack.rows = draw(290, 330);
    fill_case(random_, stack);
    compare_queued_and_captured(stack);
  }
}

TEST_P(RecurrentWide, RefusesWhatIsBesideTheEquations) {
  for (const std::string_view name : {kBothPasses, kForward}) {
    take(name);
    Descriptor layer = layer_of(CellType::kLstm, 1, 300);
    if (gpu_lacks(layer)) GTEST_SKIP() << "this GPU cannot run the implementation";
    layer.recurrent_dropout = 0.5;
    EXPECT_EQ(refusal(layer), "it has no recurrent dropout");
    layer.recurrent_dropout = 0;
    layer.zoneout_h = 0.5;
    EXPECT_EQ(refusal(layer), "it has no zoneout");
    layer.zoneout_h = 0;
    layer.peepholes = true;
    EXPECT_EQ(refusal(layer), "it has no peepholes");
  }
}

// Weights, states and gradients far from 1, which float16 couldn't hold: factors of TF32 are scaled
// on their way to the products, gradients row by row.
TEST_P(RecurrentWide, EqualsOracleWithFactorsOfAnySize) {
  if (!precision_.tf32) GTEST_SKIP() << "this is a test of TF32";
  for (const CellType cell : {CellType::kLstm, CellType::kGru}) {
    StackCase stack;
    stack.descriptor = layer_of(cell, 1, draw(257, 1024));
    stack.time = 4;
    stack.rows = 37;
    fill_case(random_, stack);
    const auto hidden = static_cast<std::size_t>(stack.descriptor.hidden);
    if (stack.input.h0.empty()) stack.input.h0.assign(37 * hidden, 1.0);
    const double large = std::ldexp(1.0, 20 + static_cast<int>(draw(0, 10)));
    for (double& h : stack.input.h0) h *= large;
    for (double& w : stack.weights.front().weight_hh) w /= large;
    for (double& d : stack.flow.dy) d *= large;
    SCOPED_TRACE(fmt::format("times {}: {}", large, describe(stack)));
    if (gpu_lacks(stack.descriptor)) return;
    expect_accurate(run(stack, options()), stack, {.tf32 = precision_.tf32});
  }
}

// Whose products are exact, so that this kernel's would not be.
TEST_P(RecurrentWide, RefusesFloat32) {
  Descriptor layer = layer_of(CellType::kLstm, 1, 1024);
  if (gpu_lacks(layer)) GTEST_SKIP() << "this GPU cannot run the implementation";
  layer.dtype = DType::kFloat32;
  layer.tf32 = false;
  EXPECT_EQ(refusal(layer), "it computes bfloat16, float16 and TF32");
}

TEST_P(RecurrentWide, RefusesWhatDoesNotFit) {
  Descriptor layer = layer_of(CellType::kLstm, 1, 1024);
  if (gpu_lacks(layer)) GTEST_SKIP() << "this GPU cannot run the implementation";
  layer.rows = 128;
  EXPECT_EQ(refusal(layer), std::nullopt);
  layer.rows = 513;
  EXPECT_EQ(refusal(layer), "with 288 rows to a block, a kernel a step is faster");
  layer.training = false;
  layer.rows = 512;
  EXPECT_EQ(refusal(layer), std::nullopt);
  layer.rows = 513;
  EXPECT_EQ(refusal(layer), "with 288 rows to a block, a kernel a step is faster");
  layer.training = true;
  layer.hidden = 384;
  layer.rows = 512;
  EXPECT_EQ(refusal(layer), std::nullopt);
  layer.layers = 3;
  EXPECT_EQ(refusal(layer), std::nullopt);
  layer.layers = 1;
  layer.hidden = 1024;
  layer.rows = 40;
  layer.directions = 2;
  EXPECT_EQ(refusal(layer), "both directions of so many units don't run at once");
  layer.directions = 1;
  layer.hidden = 2048;
  EXPECT_EQ(refusal(layer),
            "clusters that share the depth of backward's products don't all run at once");
  layer.training = false;
  EXPECT_EQ(refusal(layer), std::nullopt);
  layer.hidden = 2049;
  EXPECT_EQ(refusal(layer), "its blocks hold the recurrent weights of 2048 units, not of 2049");
  layer.hidden = 1024;
  layer.time = 1;
  EXPECT_TRUE(refusal(layer).has_value());
}

}  // namespace
}  // namespace sluice::kernels::recurrent::testing
