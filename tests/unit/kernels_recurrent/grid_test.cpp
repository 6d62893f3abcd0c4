#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <tuple>

#include "base/dtype.h"
#include "unit/kernels_recurrent/on_candidate.h"
#include "unit/kernels_recurrent/stack_case.h"
#include "unit/kernels_recurrent/stack_comparison.h"
#include "unit/support/on_device.h"

namespace sluice::kernels::recurrent::testing {
namespace {

constexpr std::string_view kName = "persistent-grid";

/// Layers between these bounds lie on the GPU in one way.
struct Range {
  std::int64_t fewest_units, most_units, fewest_rows, most_rows, directions;
  bool training = true;
};
/// As wide as one group of blocks, as two, as four, for rows or for directions; wider ones, one
/// group or two; the widest, which can't be trained; several groups of narrow ones.
constexpr std::array kRanges{
    Range{520, 1024, 1, 8, 1},  Range{520, 1024, 9, 16, 1},        Range{520, 1024, 17, 32, 1},
    Range{520, 1024, 1, 16, 2}, Range{1025, 1536, 1, 8, 1},        Range{1025, 1536, 9, 16, 1},
    Range{1025, 1536, 1, 8, 2}, Range{1537, 2048, 1, 8, 1, false}, Range{130, 250, 60, 120, 1}};
/// Float32: one group, two for rows or for directions, four.
constexpr std::array kFloat32Ranges{Range{520, 1024, 1, 8, 1}, Range{260, 480, 1, 16, 1},
                                    Range{260, 480, 1, 8, 2}, Range{70, 240, 17, 32, 1}};

/// Layers in one launch over the whole GPU: only on devices that have it.
template <typename Parameter>
class OnGrid : public OnCandidate<Parameter> {
 protected:
  using OnCandidate<Parameter>::draw;
  using OnCandidate<Parameter>::refusal;

  OnGrid() : OnCandidate<Parameter>(kName) {}

  void SetUp() override {
    OnCandidate<Parameter>::SetUp();
    if (this->IsSkipped()) return;
    if (refusal(layer_of(CellType::kLstm, kRanges.front())))
      GTEST_SKIP() << "the implementation refuses the first of its ranges on this GPU";
  }

  /// One layer or two of a few steps, as wide and with as many rows as the range allows, or less.
  Descriptor layer_of(CellType cell, const Range& range) {
    Descriptor d;
    d.cell = cell;
    d.layers = range.training ? draw(1, 2) : 1;
    d.directions = range.directions;
    d.input = draw(6, 40);
    d.hidden = draw(0, 2) == 0 ? range.most_units : draw(range.fewest_units, range.most_units);
    d.time = draw(3, 7);
    d.rows = draw(0, 2) == 0 ? range.most_rows : draw(range.fewest_rows, range.most_rows);
    d.dtype = dtype();
    d.training = range.training;
    return d;
  }
  StackCase case_of(const Descriptor& layer) {
    StackCase stack;
    stack.descriptor = layer;
    stack.time = draw(2, layer.time);
    stack.rows = draw(0, 1) == 0 ? layer.rows : draw(1, layer.rows);
    fill_case(this->random_, stack);
    return stack;
  }
  static DType dtype() { return std::get<1>(OnGrid::GetParam()); }
};

using Parameter = std::tuple<const char*, DType>;
class RecurrentGrid : public OnGrid<Parameter> {};

std::string parameter_name(const ::testing::TestParamInfo<Parameter>& parameter) {
  const auto& [device, dtype] = parameter.param;
  return fmt::format("{}_{}", device, base::name_of(dtype));
}

constexpr std::array kTypes{DType::kBFloat16, DType::kFloat16};
INSTANTIATE_TEST_SUITE_P(, RecurrentGrid,
                         ::testing::Combine(sluice::testing::devices(),
                                            ::testing::ValuesIn(kTypes)),
                         parameter_name);

using RangeParameter = std::tuple<const char*, DType, Range>;
class RecurrentGridRange : public OnGrid<RangeParameter> {
 protected:
  static const Range& range() { return std::get<2>(GetParam()); }
};

std::string range_name(const ::testing::TestParamInfo<RangeParameter>& parameter) {
  const auto& [device, dtype, range] = parameter.param;
  return fmt::format("{}_{}_H{}_B{}_D{}", device, base::name_of(dtype), range.most_units,
                     range.most_rows, range.directions);
}

INSTANTIATE_TEST_SUITE_P(, RecurrentGridRange,
                         ::testing::Combine(sluice::testing::devices(), ::testing::ValuesIn(kTypes),
                                            ::testing::ValuesIn(kRanges)),
                         range_name);

INSTANTIATE_TEST_SUITE_P(Float32, RecurrentGridRange,
                         ::testing::Combine(sluice::testing::devices(),
                                            ::testing::Values(DType::kFloat32),
                                            ::testing::ValuesIn(kFloat32Ranges)),
                         range_name);

TEST_P(RecurrentGridRange, EqualsOracle) {
  for (const CellType cell : {CellType::kLstm, CellType::kGru}) {
    const StackCase stack = case_of(layer_of(cell, range()));
    SCOPED_TRACE(describe(stack));
    ASSERT_EQ(refusal(stack.descriptor), std::nullopt);
    expect_accurate(run(stack, options()), stack);
  }
}

TEST_P(RecurrentGridRange, RepeatsToTheBit) {
  const StackCase stack =
      case_of(layer_of(draw(0, 1) == 0 ? CellType::kLstm : CellType::kGru, range()));
  SCOPED_TRACE(describe(stack));
  EXPECT_EQ(run(stack, options()), run(stack, options()));
}

/// Which no row waits for forever, and which stays in its row.
TEST_P(RecurrentGridRange, TellsNaNsOfAllBits) {
  Descriptor layer = layer_of(CellType::kLstm, range());
  layer.layers = layer.directions = 1;
  layer.training = false;
  StackCase stack = case_of(layer);
  stack.input.lengths.clear();
  stack.input.h0.assign(static_cast<std::size_t>(stack.rows * layer.hidden), 0.25);
  stack.input.h0.front() = std::bit_cast<double>(~std::uint64_t{0});
  const Tensors got = run(stack, options());
  for (std::int64_t i = 0; i < stack.rows * layer.hidden; ++i) {
    ASSERT_EQ(std::isnan(got.at("y")[static_cast<std::size_t>(i)]), i < layer.hidden) << i;
  }
}

TEST_P(RecurrentGrid, RefusesFloat32OfMoreRowsThanOneGroup) {
  Descriptor layer = layer_of(CellType::kLstm, {1024, 1024, 8, 8, 1});
  layer.dtype = DType::kFloat32;
  EXPECT_EQ(refusal(layer), std::nullopt);
  layer.rows = 9;
  EXPECT_TRUE(refusal(layer).has_value());
  layer.rows = 1;
  layer.hidden = 1032;
  EXPECT_TRUE(refusal(layer).has_value());
}

TEST_P(RecurrentGrid, RefusesWhatTheGpuDoesNotHold) {
  Descriptor layer = layer_of(CellType::kLstm, {1024, 1024, 32, 32, 1});
  layer.layers = 1;
  EXPECT_EQ(refusal(layer), std::nullopt);
  layer.rows = 33;
  EXPECT_TRUE(refusal(layer).has_value());
  layer.rows = 1;
  layer.hidden = 1537;
  EXPECT_TRUE(refusal(layer).has_value());
  layer.training = false;
  EXPECT_EQ(refusal(layer), std::nullopt);
  layer.hidden = 2049;
  EXPECT_TRUE(refusal(layer).has_value());
  layer.training = true;
  layer.hidden = 1030;
  layer.directions = 2;
  EXPECT_EQ(refusal(layer), std::nullopt);
  layer.rows = 9;
  EXPECT_TRUE(refusal(layer).has_value());
  layer.rows = 1;
  layer.directions = 1;
  layer.layers = 3;
  EXPECT_TRUE(refusal(layer).has_value());
  layer.layers = 2;
  EXPECT_EQ(refusal(layer), std::nullopt);
  layer.time = 1;
  EXPECT_TRUE(refusal(layer).has_value());
}

}  // namespace
}  // namespace sluice::kernels::recurrent::testing
