#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "unit/kernels_recurrent/on_candidate.h"
#include "unit/kernels_recurrent/stack_case.h"
#include "unit/kernels_recurrent/stack_comparison.h"
#include "unit/support/on_device.h"
#include "unit/support/temporary_folder.h"

namespace sluice::kernels::recurrent::testing {
namespace {

/// A device and a precision.
using Parameter = std::tuple<const char*, const char*>;

std::string parameter_name(const ::testing::TestParamInfo<Parameter>& parameter) {
  return fmt::format("{}_{}", std::get<0>(parameter.param), std::get<1>(parameter.param));
}

/// Backward of many rows within clusters, at widths and batches that small random cases never have:
/// only on devices that have it.
class RecurrentClusterBackward : public OnCandidate<Parameter> {
 protected:
  RecurrentClusterBackward() : OnCandidate("persistent-wide-cluster") {}

  Descriptor layer_of(std::int64_t directions, std::int64_t hidden, std::int64_t rows) {
    Descriptor d;
    d.cell = CellType::kLstm;
    d.directions = directions;
    d.input = precision_.tf32 ? 8 * draw(1, 3) : draw(6, 20);
    d.hidden = hidden;
    d.time = 6;
    d.rows = rows;
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
  /// Of TF32 as in wide_test.cpp.
  double tolerance() const {
    return precision_.tf32 ? 3 * tolerance_of(DType::kFloat16) : tolerance_of(precision_.storage);
  }
  /// Of those that it takes.
  std::int64_t draw_units(std::int64_t fewest, std::int64_t most) {
    return draw(fewest / 8, most / 8) * 8;
  }

  /// So many steps of a layer, with as many rows as it is planned for or fewer; to be filled in.
  StackCase case_of(Descriptor layer, std::int64_t time, bool all_rows) {
    StackCase stack;
    layer.time = time + draw(0, 1);
    stack.descriptor = layer;
    stack.time = time;
    stack.rows = all_rows ? layer.rows : draw(1, layer.rows);
    return stack;
  }
  void compare(const Descriptor& layer, std::int64_t time, bool all_rows) {
    StackCase stack = case_of(layer, time, all_rows);
    fill_case(random_, stack);
    compare(stack);
  }
  /// Runs it, and again for the same bits.
  void compare(const StackCase& stack) {
    const Tensors got = compare_once(stack);
    for (int i = 0; i < 2 && !got.empty(); ++i) EXPECT_EQ(run(stack, options()), got);
  }
  /// Returns what came of it; nothing where the GPU has no such launches.
  Tensors compare_once(const StackCase& stack) {
    SCOPED_TRACE(describe(stack));
    if (gpu_lacks(stack.descriptor)) return {};
    Tensors got = run(stack, options());
    expect_accurate(got, stack, {.tf32 = precision_.tf32});
    return got;
  }
  /// The fewest rows that it takes, for racecheck: two steps, once.
  void compare_smallest(std::int64_t units, std::int64_t rows) {
    StackCase stack = case_of(layer_of(1, units, rows), 2, true);
    stack.descriptor.time = stack.time;
    fill_case(random_, stack);
    compare_once(stack);
  }

  const runtime::Precision precision_ = runtime::Precision::parse(std::get<1>(GetParam()));
};

INSTANTIATE_TEST_SUITE_P(, RecurrentClusterBackward,
                         ::testing::Combine(sluice::testing::devices(),
                                            ::testing::Values("bfloat16", "float16", "tf32")),
                         parameter_name);

// Clusters of four blocks and of eight, with all of their units and with fewer.
TEST_P(RecurrentClusterBackward, EqualsOracle) {
  compare(layer_of(1, 384, 300), 5, true);
  compare(layer_of(1, draw_units(264, 376), 320), 4, false);
  compare(layer_of(1, 512, 160), 5, true);
  compare(layer_of(1, draw_units(392, 504), 170), 4, false);
}

TEST_P(RecurrentClusterBackward, EqualsOracleInTwoStepsOfClustersOfFour) {
  compare_smallest(264, 271);
}
TEST_P(RecurrentClusterBackward, EqualsOracleInTwoStepsOfClustersOfEight) {
  compare_smallest(392, 136);
}

// A cluster's last two rows are cells of a warp of their own; the last cluster has fewer rows.
TEST_P(RecurrentClusterBackward, EqualsOracleWithEveryNumberOfRowsOfACluster) {
  for (const std::int64_t rows : {11, 15, 16, 17, 18}) {
    compare(layer_of(1, draw_units(264, 384), 30 * rows - draw(0, 9)), 2, true);
  }
  compare(layer_of(1, 512, 15 * 18), 3, true);
}

TEST_P(RecurrentClusterBackward, EqualsOracleInBothDirections) {
  if (precision_.tf32) GTEST_SKIP() << "in TF32 it runs one direction";
  compare(layer_of(2, draw_units(264, 384), 250), 5, true);
  compare(layer_of(2, draw_units(392, 512), 110), 5, false);
}

TEST_P(RecurrentClusterBackward, EqualsOracleWithSeveralLayers) {
  Descriptor stack = layer_of(1, draw_units(264, 384), 400);
  stack.layers = 3;
  stack.dropout = 0.3;
  compare(stack, 4, true);
}

TEST_P(RecurrentClusterBackward, UpdatesStatesInPlace) {
  const bool both = !precision_.tf32;
  StackCase stack = case_of(layer_of(both ? 2 : 1, draw_units(392, 448), both ? 70 : 140), 3, true);
  fill_case_in_place(random_, stack);
  compare(stack);
}

// Each row of the batch has gradients of another size, from its last step alone, so that each row
// of a step wants a scale of its own. All of them are linear in dy.
TEST_P(RecurrentClusterBackward, EqualsOracleWithRowsOfAnySize) {
  if (!precision_.tf32) GTEST_SKIP() << "this is a test of TF32";
  for (const std::int64_t units : {draw_units(264, 384), draw_units(392, 512)}) {
    StackCase stack;
    do {
      stack = case_of(layer_of(1, units, units > 384 ? 140 : 280), 6, true);
      fill_case(random_, stack);
    } while (stack.flow.dy.empty());
    stack.input.lengths.clear();
    stack.flow.dhn.clear();
    stack.flow.dcn.clear();
    SCOPED_TRACE(describe(stack));
    if (gpu_lacks(stack.descriptor)) return;
    const auto rows = static_cast<std::size_t>(stack.rows), width = static_cast<std::size_t>(units);
    std::fill(stack.flow.dy.begin(),
              stack.flow.dy.end() - static_cast<std::ptrdiff_t>(rows * width), 0.0);
    const Tensors want = expected(stack);
    // Times 2^(30 power) at most, or as much less.
    const auto scale = [&](std::vector<double>& values, std::size_t columns, int power) {
      for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] = std::ldexp(values[i], power * (static_cast<int>(i / columns % rows % 61) - 30));
      }
    };
    scale(stack.flow.dy, width, 1);
    Tensors got = run(stack, options());
    for (const auto& [name, columns] :
         {std::pair{"dx", static_cast<std::size_t>(stack.descriptor.input)},
          std::pair{"dh0", width}, std::pair{"dc0", width}}) {
      if (!want.contains(name)) continue;
      scale(got.at(name), columns, -1);
      EXPECT_LE(relative_error(got.at(name), want.at(name)), tolerance()) << name;
    }
  }
}

// Forward writes two units at a time, backward's TMA reads dy.
TEST_P(RecurrentClusterBackward, RefusesArraysThatBeginAnywhere) {
  StackCase stack;
  do {
    stack = case_of(layer_of(1, draw_units(392, 448), 140), 2, true);
    fill_case(random_, stack);
  } while (stack.flow.dy.empty());
  if (gpu_lacks(stack.descriptor)) return;
  stack.y_skips = 2;
  compare(stack);
  const auto expect_refused = [&](std::string_view name, int bytes) {
    const Error error = sluice::testing::error_of([&] { run(stack, options()); });
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_EQ(error.what(), fmt::format("{} of a recurrent layer begins at an address that is no "
                                        "multiple of {} bytes; copy it to one that is",
                                        name, bytes));
  };
  stack.dy_skips = draw(1, 3);
  expect_refused("dy", 16);
  stack.y_skips = 2 * draw(0, 3) + 1;
  expect_refused("y", precision_.tf32 ? 8 : 4);
}

TEST_P(RecurrentClusterBackward, RefusesWhatDoesNotFit) {
  Descriptor layer = layer_of(1, 384, 512);
  if (gpu_lacks(layer)) GTEST_SKIP() << "this GPU cannot run the implementation";
  EXPECT_EQ(refusal(layer), std::nullopt);
  layer.rows = 541;
  EXPECT_EQ(refusal(layer), "its clusters take 540 rows at once, not 541");
  layer.rows = 512;
  layer.hidden = 380;
  EXPECT_EQ(refusal(layer), "380 units are no multiple of 8");
  layer.hidden = 520;
  EXPECT_EQ(refusal(layer), "a cluster holds the recurrent weights of 512 units, not of 520");
  layer.hidden = 384;
  layer.cell = CellType::kGru;
  EXPECT_EQ(refusal(layer), "its backward is that of an LSTM");
  layer.cell = CellType::kLstm;
  if (precision_.tf32) {
    layer.input = 12;
    EXPECT_EQ(refusal(layer), "12 inputs are no multiple of 8, as its gradients in TF32 want");
    layer.input = 16;
    layer.directions = 2;
    EXPECT_EQ(refusal(layer), "its backward in TF32 is that of one direction");
    layer.directions = 1;
  }
  layer.training = false;
  EXPECT_EQ(refusal(layer), "it differs from persistent-wide in backward alone");
}

}  // namespace
}  // namespace sluice::kernels::recurrent::testing
