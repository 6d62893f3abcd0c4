#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "unit/kernels_recurrent/on_candidate.h"
#include "unit/kernels_recurrent/stack_case.h"
#include "unit/kernels_recurrent/stack_comparison.h"
#include "unit/support/on_device.h"

namespace sluice::kernels::recurrent::testing {
namespace {

/// Forward is the same in both, and backward of layers for which they are.
constexpr std::string_view kBothPasses = "persistent-cluster-wgmma",
                           kForward = "persistent-cluster-wide";

/// A device and a precision.
using Parameter = std::tuple<const char*, const char*>;

std::string parameter_name(const ::testing::TestParamInfo<Parameter>& parameter) {
  return fmt::format("{}_{}", std::get<0>(parameter.param), std::get<1>(parameter.param));
}

/// Layers of many rows that multiply within clusters, in tiles of 16 and 24 rows: only on devices
/// that have them.
class RecurrentClusterWgmma : public OnCandidate<Parameter> {
 protected:
  RecurrentClusterWgmma() : OnCandidate(kForward) {}

  /// One layer of so many sixteens of units.
  Descriptor layer_of(CellType cell, std::int64_t directions, std::int64_t sixteens) {
    Descriptor d;
    d.cell = cell;
    d.directions = directions;
    d.input = draw(6, 20);
    d.hidden = 16 * sixteens;
    d.time = 7;
    d.dtype = precision_.storage;
    d.tf32 = precision_.tf32;
    d.training = true;
    return d;
  }
  /// Those that run in this precision.
  std::vector<CellType> cells() const {
    if (precision_.tf32) return {CellType::kLstm};
    return {CellType::kLstm, CellType::kGru};
  }
  RunOptions options() const {
    RunOptions options = OnCandidate::options();
    options.tf32 = precision_.tf32;
    return options;
  }

  /// So many steps of a layer that is planned for up to so many rows; to be filled in.
  StackCase case_of(Descriptor layer, std::int64_t time, std::int64_t rows,
                    std::int64_t most_rows) {
    StackCase stack;
    layer.time = time + draw(0, 1);
    layer.rows = most_rows;
    stack.descriptor = layer;
    stack.time = time;
    stack.rows = rows;
    return stack;
  }
  StackCase filled_case_of(const Descriptor& layer, std::int64_t time, std::int64_t rows,
                           std::int64_t most_rows) {
    StackCase stack = case_of(layer, time, rows, most_rows);
    fill_case(random_, stack);
    return stack;
  }
  void compare(const Descriptor& layer, std::int64_t time, std::int64_t rows,
               std::int64_t most_rows) {
    compare(filled_case_of(layer, time, rows, most_rows));
  }
  /// Runs it, and again for the same bits.
  void compare(const StackCase& stack) {
    const Tensors got = compare_once(stack);
    if (got.empty()) return;
    EXPECT_EQ(run(stack, options()), got);
  }
  /// Runs it; in training with a backward that takes any of them. Returns what came of it.
  Tensors compare_once(const StackCase& stack) {
    SCOPED_TRACE(describe(stack));
    take(stack.descriptor.training ? training_ : kBothPasses);
    if (gpu_lacks(stack.descriptor)) return {};
    Tensors got = run(stack, options());
    expect_accurate(got, stack, {.tf32 = precision_.tf32});
    return got;
  }

  std::string_view training_ = kForward;
  const runtime::Precision precision_ = runtime::Precision::parse(std::get<1>(GetParam()));
};

INSTANTIATE_TEST_SUITE_P(, RecurrentClusterWgmma,
                         ::testing::Combine(sluice::testing::devices(),
                                            ::testing::Values("bfloat16", "float16", "tf32")),
                         parameter_name);

// Two warpgroups of units and three; blocks that have all units, some, or none.
TEST_P(RecurrentClusterWgmma, EqualsOracleAtEveryWidth) {
  for (const CellType cell : cells()) {
    for (const std::int64_t sixteens : {draw(9, 15), std::int64_t{16}, draw(17, 23)}) {
      compare(layer_of(cell, 1, sixteens), 4, draw(1, 40), 40);
    }
    compare(layer_of(cell, 1, 24), 4, 64, 64);
  }
}

// Small enough for racecheck: forward alone, and kept for backward.
TEST_P(RecurrentClusterWgmma, EqualsOracleInOneCluster) {
  for (const CellType cell : cells()) {
    Descriptor inference = layer_of(cell, 1, draw(9, 24));
    inference.training = false;
    const std::int64_t rows = draw(9, 24);
    compare_once(filled_case_of(inference, 2, rows, rows));
  }
}
TEST_P(RecurrentClusterWgmma, TrainsInOneCluster) {
  compare_once(filled_case_of(layer_of(CellType::kLstm, 1, draw(9, 12)), 2, draw(9, 24), 24));
}

// Clusters of one tile of 16 or 24 rows, and of two, three and four of both kinds.
TEST_P(RecurrentClusterWgmma, EqualsOracleWithAnyTiles) {
  for (const CellType cell : cells()) {
    for (const std::int64_t each : {17, 26, 35, 60}) {
      compare(layer_of(cell, 1, draw(9, 10)), 3, each * 15 - draw(0, 14), each * 15);
    }
    Descriptor inference = layer_of(cell, 1, draw(17, 20));
    inference.training = false;
    compare(inference, 2, 512, 512);
    inference.hidden = 144;
    compare(inference, 3, draw(1081, 1200), 1200);
  }
}

TEST_P(RecurrentClusterWgmma, EqualsOracleInBothDirectionsAndSeveralLayers) {
  for (const CellType cell : cells()) {
    compare(layer_of(cell, 2, draw(9, 16)), 4, draw(150, 200), 200);
    Descriptor stack = layer_of(cell, draw(1, 2), draw(9, 12));
    stack.layers = 3;
    stack.dropout = 0.3;
    compare(stack, 3, draw(100, 130), 130);
  }
}

// Of such widths forward leaves dropout's masks as bits, drawn while its launches run.
TEST_P(RecurrentClusterWgmma, DropsGradientsOut) {
  training_ = kBothPasses;
  const std::int64_t directions = precision_.tf32 ? 1 : 2;
  for (const auto& [count, sixteens] :
       {std::pair{directions, 20}, std::pair{std::int64_t{1}, 24}}) {
    Descriptor stack = layer_of(CellType::kLstm, count, sixteens);
    stack.input = 16;
    stack.layers = 3;
    stack.dropout = 0.4;
    const std::int64_t rows = count == 1 ? 330 : 160;
    compare(stack, 3, draw(rows - 29, rows), rows);
  }
}

// Long enough for everything that takes turns to come round many times.
TEST_P(RecurrentClusterWgmma, EqualsOracleOverManySteps) {
  for (const CellType cell : cells()) {
    compare(layer_of(cell, 2, 9), 24, draw(120, 150), 150);
  }
}

/// Weights of which each input product is one number, so that no order of sums shows.
void read_one_input_each(StackCase& stack) {
  for (std::int64_t layer = 0; layer < stack.descriptor.layers; ++layer) {
    std::vector<double>& matrix = stack.weights[static_cast<std::size_t>(layer)].weight_ih;
    const auto input = static_cast<std::size_t>(stack.descriptor.input_of(layer));
    std::ranges::fill(matrix, 0);
    for (std::size_t row = 0; row < matrix.size() / input; ++row) {
      matrix[row * input + row % input] = row % 3 == 0 ? 0.5 : -0.25;
    }
  }
}

// Where input products of all steps are large, a layer may take the sequence in up to four pieces.
// A plan for four times as many steps has as many in a piece.
TEST_P(RecurrentClusterWgmma, EqualsWholeSequencesInPiecesToTheBit) {
  take(kBothPasses);
  Descriptor layers = layer_of(CellType::kLstm, 1, draw(17, 18));
  layers.input = 16;
  layers.layers = 3;
  layers.dropout = draw(0, 1) == 0 ? 0.3 : 0;
  StackCase stack = case_of(layers, 65, draw(271, 280), 280);
  stack.descriptor.time = stack.time;
  if (gpu_lacks(stack.descriptor)) GTEST_SKIP() << "this GPU cannot run the implementation";
  fill_case(random_, stack);
  read_one_input_each(stack);
  SCOPED_TRACE(describe(stack));
  const Tensors pieces = run(stack, options());
  stack.descriptor.time *= 4;
  EXPECT_EQ(run(stack, options()), pieces);
  if (layers.dropout == 0) return;
  stack.descriptor.time = stack.time;
  RunOptions captured = options();
  captured.rounds = 3;
  EXPECT_EQ(run(stack, captured), pieces);
}

TEST_P(RecurrentClusterWgmma, EqualsOracleWithBothPassesInClusters) {
  training_ = kBothPasses;
  Descriptor layer = layer_of(CellType::kLstm, 1, draw(17, 24));
  layer.input = 16;  // of TF32 a multiple of eight
  compare(layer, 3, draw(271, 330), 330);
  Descriptor stack = layer_of(CellType::kLstm, precision_.tf32 ? 1 : 2, draw(17, 20));
  stack.input = 16;
  stack.layers = 2;
  const std::int64_t rows = precision_.tf32 ? 330 : 160;
  compare(stack, 2, draw(rows - 59, rows), rows);
}

// Weights and initial states far from 1, which float16 couldn't hold; weights of zero.
TEST_P(RecurrentClusterWgmma, EqualsOracleWithFactorsOfAnySize) {
  if (!precision_.tf32) GTEST_SKIP() << "this is a test of TF32";
  StackCase stack = filled_case_of(layer_of(CellType::kLstm, 1, draw(9, 24)), 4, 37, 40);
  const auto hidden = static_cast<std::size_t>(stack.descriptor.hidden);
  if (stack.input.h0.empty()) stack.input.h0.assign(37 * hidden, 1.0);
  const double large = std::ldexp(1.0, 20 + static_cast<int>(draw(0, 10)));
  for (double& h : stack.input.h0) h *= large;
  for (double& w : stack.weights.front().weight_hh) w /= large;
  compare_once(stack);
  for (double& w : stack.weights.front().weight_hh) w = 0;
  compare_once(stack);
}

// Each block of a cluster reads the initial h of all units. Rows of no step and of one end first.
TEST_P(RecurrentClusterWgmma, UpdatesStatesInPlace) {
  for (const CellType cell : cells()) {
    for (const bool training : {false, true}) {
      Descriptor layer = layer_of(cell, 2, draw(9, 12));
      layer.training = training;
      StackCase stack = case_of(layer, 2, draw(100, 130), 130);
      fill_case_in_place(random_, stack);
      compare(stack);
    }
  }
}

TEST_P(RecurrentClusterWgmma, WritesOutputsThatBeginAnywhere) {
  for (const CellType cell : cells()) {
    StackCase stack = case_of(layer_of(cell, draw(1, 2), draw(9, 12)), 3, 40, 40);
    fill_case(random_, stack);
    stack.y_skips = draw(1, 7);
    compare(stack);
  }
}

TEST_P(RecurrentClusterWgmma, RefusesWhatDoesNotFit) {
  take(kBothPasses);
  Descriptor layer = layer_of(CellType::kLstm, 1, 24);
  layer.input = 16;
  layer.rows = 512;
  if (gpu_lacks(layer)) GTEST_SKIP() << "this GPU cannot run the implementation";
  layer.hidden = 400;
  EXPECT_EQ(refusal(layer), "a cluster holds the recurrent weights of 384 units, not of 400");
  layer.hidden = 128;
  EXPECT_EQ(refusal(layer), "so few units leave half of a cluster idle");
  layer.hidden = 300;
  EXPECT_EQ(refusal(layer), "its units come in sixteens, not 300");
  layer.hidden = 384;
  layer.training = false;
  layer.rows = 1080;
  EXPECT_EQ(refusal(layer), std::nullopt);
  // TF32 keeps h as it is beside what is multiplied.
  const std::int64_t most = precision_.tf32 ? 1200 : 1440;
  layer.rows = most + 1;
  EXPECT_EQ(refusal(layer),
            fmt::format("its clusters take {} rows at once, not {}", most, most + 1));
  layer.rows = 512;
  layer.dtype = DType::kFloat32;
  layer.tf32 = false;
  EXPECT_EQ(refusal(layer), "it computes bfloat16 and float16, and of LSTMs TF32");
  layer.dtype = precision_.storage;
  layer.tf32 = precision_.tf32;
  layer.peepholes = true;
  EXPECT_EQ(refusal(layer), "it has no peepholes");
  layer.peepholes = false;
  take(kForward);
  EXPECT_EQ(refusal(layer), "it differs from persistent-cluster-wgmma in backward alone");
}

}  // namespace
}  // namespace sluice::kernels::recurrent::testing
