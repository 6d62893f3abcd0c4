#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <string_view>
#include <tuple>

#include "base/dtype.h"
#include "unit/kernels_recurrent/on_candidate.h"
#include "unit/kernels_recurrent/stack_case.h"
#include "unit/kernels_recurrent/stack_comparison.h"
#include "unit/support/on_device.h"

namespace sluice::kernels::recurrent::testing {
namespace {

using Vector = std::vector<double>;

constexpr std::string_view kName = "persistent-cluster";

std::string parameter_name(
    const ::testing::TestParamInfo<std::tuple<const char*, DType>>& parameter) {
  return fmt::format("{}_{}", std::get<0>(parameter.param),
                     base::name_of(std::get<1>(parameter.param)));
}

/// Layers overlapped with each other, in pieces of time: only on devices that run a piece in one
/// launch.
class RecurrentPieces : public OnCandidate<std::tuple<const char*, DType>> {
 protected:
  RecurrentPieces() : OnCandidate(kName) {}

  /// Several layers, enough steps for several pieces.
  StackCase draw_stack(std::int64_t most_rows) {
    StackCase stack;
    Descriptor& d = stack.descriptor;
    d.cell = draw(0, 1) == 0 ? CellType::kLstm : CellType::kGru;
    d.layers = draw(2, 4);
    d.input = draw(6, 40);
    d.hidden = draw(6, 140);
    d.dtype = std::get<1>(GetParam());
    d.training = draw(0, 2) > 0;
    if (draw(0, 1) == 0) d.dropout = 0.3;
    if (draw(0, 1) == 0) draw_extras(random_, d);
    if (d.cell == CellType::kLstm && draw(0, 2) == 0) {
      d.layer_norm = true;
      d.peepholes = false;
      // A few units may be nearly equal, of which norms would magnify the rounding.
      d.hidden = std::max<std::int64_t>(d.hidden, 12);
    }
    stack.time = draw(9, 60);
    stack.rows = draw(1, most_rows);
    d.time = stack.time + draw(0, 20);
    d.rows = stack.rows + draw(0, 3);
    return stack;
  }
};

INSTANTIATE_TEST_SUITE_P(, RecurrentPieces,
                         ::testing::Combine(sluice::testing::devices(),
                                            ::testing::Values(DType::kBFloat16, DType::kFloat16)),
                         parameter_name);

TEST_P(RecurrentPieces, EqualOracleAndRepeatToTheBit) {
  for (int trial = 0; trial < 12; ++trial) {
    StackCase stack = draw_stack(40);
    fill_case(random_, stack);
    if (!can_run(stack.descriptor)) continue;
    SCOPED_TRACE(describe(stack));
    RunOptions captured = options();
    captured.rounds = 3;
    const Tensors got = run(stack, captured);
    expect_accurate(got, stack);
    EXPECT_EQ(run(stack, captured), got);
  }
}

// Layers of so many units and rows run forward on half as many blocks with twice as many units
// each.
TEST_P(RecurrentPieces, EqualOracleInHalvedClusters) {
  for (int trial = 0; trial < 2; ++trial) {
    StackCase stack = draw_stack(40);
    // Of plain cells alone clusters are halved.
    while (stack.descriptor.has_extras()) stack = draw_stack(40);
    stack.descriptor.layers = draw(3, 4);
    stack.descriptor.hidden = 4 * draw(65, 80);
    stack.time = stack.descriptor.time = draw(20, 40);
    stack.rows = stack.descriptor.rows = draw(19, 28);
    fill_case(random_, stack);
    if (!can_run(stack.descriptor)) continue;
    SCOPED_TRACE(describe(stack));
    const Tensors got = run(stack, options());
    expect_accurate(got, stack);
    EXPECT_EQ(run(stack, options()), got);
  }
}

// Rows that end in different pieces, and pieces that no row reaches.
TEST_P(RecurrentPieces, EqualOracleWhereRowsEndEarly) {
  for (int trial = 0; trial < 6; ++trial) {
    StackCase stack = draw_stack(20);
    fill_case(random_, stack);
    if (!can_run(stack.descriptor)) continue;
    const std::int64_t longest = trial == 0 ? 0 : draw(0, stack.time);
    stack.input.lengths.clear();
    for (std::int64_t row = 0; row < stack.rows; ++row) {
      stack.input.lengths.push_back(static_cast<int>(draw(0, longest)));
    }
    SCOPED_TRACE(describe(stack));
    expect_accurate(run(stack, options()), stack);
  }
}

/// What layer `layer` has of values of all layers.
Vector layer_part(const Vector& all, std::int64_t layers, std::int64_t layer) {
  const auto size = static_cast<std::ptrdiff_t>(all.size()) / layers;
  return {all.begin() + layer * size, all.begin() + (layer + 1) * size};
}

/// One layer of a stack as a stack of its own.
StackCase single_layer(const StackCase& stack, std::int64_t layer) {
  const auto l = static_cast<std::size_t>(layer);
  const std::int64_t layers = stack.descriptor.layers;
  StackCase one = stack;
  one.descriptor.layers = 1;
  one.descriptor.input = stack.descriptor.input_of(layer);
  one.weights = {stack.weights[l]};
  one.gradients_before = {stack.gradients_before[l]};
  // A layer's masks are those of its stream.
  one.dropout.stream += static_cast<std::uint32_t>(layer);
  for (Vector* part : {&one.input.h0, &one.input.c0, &one.flow.dhn, &one.flow.dcn}) {
    *part = layer_part(*part, layers, layer);
  }
  return one;
}

/// Weights of which each input product, and each gradient of an input, is one number, so that no
/// order of sums shows: unit u's first gate reads input u.
void read_one_input_each(StackCase& stack) {
  const std::int64_t hidden = stack.descriptor.hidden;
  for (std::int64_t layer = 0; layer < stack.descriptor.layers; ++layer) {
    Vector& matrix = stack.weights[static_cast<std::size_t>(layer)].weight_ih;
    const std::int64_t input = stack.descriptor.input_of(layer);
    std::ranges::fill(matrix, 0);
    for (std::int64_t u = 0; u < std::min(hidden, input); ++u) {
      matrix[static_cast<std::size_t>(u * input + u)] = 0.5;
    }
  }
}

// The same stack, each layer by a plan of its own, which takes the whole sequence at once. With
// more rows the stack's clusters may have two tiles where one layer's have one, whose sums have
// another order.
TEST_P(RecurrentPieces, EqualWholeSequencesToTheBit) {
  for (int trial = 0; trial < 6; ++trial) {
    StackCase stack = draw_stack(20);
    stack.descriptor.dropout = 0;
    stack.descriptor.training = true;
    fill_case(random_, stack);
    stack.want_dx = true;
    read_one_input_each(stack);
    if (!can_run(stack.descriptor)) continue;
    SCOPED_TRACE(describe(stack));
    const std::int64_t layers = stack.descriptor.layers;
    const Tensors together = run(stack, options());

    // Forward alone first: a layer's dy is known when those above it have run.
    std::vector<StackCase> apart;
    for (std::int64_t layer = 0; layer < layers; ++layer) {
      apart.push_back(single_layer(stack, layer));
      if (layer == 0) continue;
      apart.back().input.x = run(apart[static_cast<std::size_t>(layer - 1)], options()).at("y");
    }
    for (std::int64_t layer = layers - 1; layer >= 0; --layer) {
      const auto l = static_cast<std::size_t>(layer);
      const Tensors one = run(apart[l], options());
      if (layer > 0) apart[l - 1].flow.dy = one.at("dx");
      for (const auto& [name, values] : one) {
        const auto dot = name.rfind('.');
        if (name == "y" || name == "dx") {
          const std::int64_t of = name == "y" ? layers - 1 : 0;
          if (layer != of) continue;
          EXPECT_EQ(values, together.at(name)) << name;
        } else if (dot == std::string::npos) {
          EXPECT_EQ(values, layer_part(together.at(name), layers, layer)) << name << layer;
        } else {
          const std::string own = fmt::format("{}.{}", name.substr(0, dot), layer);
          EXPECT_EQ(values, together.at(own)) << own;
        }
      }
    }
  }
}

}  // namespace
}  // namespace sluice::kernels::recurrent::testing
