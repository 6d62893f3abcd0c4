#include "kernels/recurrent/adapted_plan.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>

#include "unit/kernels_recurrent/adapted_plan_case.h"

namespace sluice::kernels::recurrent::testing {
namespace {

INSTANTIATE_TEST_SUITE_P(Devices, AdaptedPlan, sluice::testing::devices(),
                         sluice::testing::device_name);

TEST_P(AdaptedPlan, WithNothingToAdaptHasTheBitsOfThePlan) {
  for_each_case([&](StackCase& stack) { expect_same(run(stack, {}), run(stack, kPlain)); });
}

// Weights of 16 bits stand for the numbers that float32 holds, too. Their gradients are those of
// float32, rounded once.
TEST_P(AdaptedPlan, TakesWeightsOf16Bits) {
  for_each_case([&](StackCase& stack) {
    const DType narrow = random_() % 2 == 0 ? DType::kBFloat16 : DType::kFloat16;
    round(stack.weights, narrow);
    round(stack.gradients_before, narrow);
    for (const bool accumulate : {true, false}) {
      stack.accumulate = accumulate;
      Tensors want = run(stack, kPlain);
      for (auto& [name, values] : want) {
        if (name.starts_with("gradient")) round(values, narrow);
      }
      SCOPED_TRACE(fmt::format("{} accumulate {}", base::name_of(narrow), accumulate));
      expect_same(run(stack, {.tensors = {.weights = narrow}}), want);
    }
  });
}

TEST_P(AdaptedPlan, TakesCellStatesOf16Bits) {
  for_each_case([&](StackCase& stack) {
    const DType narrow = random_() % 2 == 0 ? DType::kBFloat16 : DType::kFloat16;
    round(stack.input.c0, narrow);
    round(stack.flow.dcn, narrow);
    Tensors want = run(stack, kPlain);
    for (const char* name : {"cn", "dc0"}) {
      if (want.contains(name)) round(want.at(name), narrow);
    }
    SCOPED_TRACE(base::name_of(narrow));
    expect_same(run(stack, {.tensors = {.cells = narrow}}), want);
  });
}

// x, y, dx and dy of the caller may have the batch first, and lie in larger arrays.
TEST_P(AdaptedPlan, TakesStridedTensors) {
  for_each_case([&](StackCase& stack) {
    const Tensors want = run(stack, kPlain);
    const auto gap = [&](std::uint64_t most) {
      return static_cast<std::int64_t>(random_() % most);
    };
    for (const Layout& layout :
         {Layout{.rows_first = true}, Layout{true, gap(4), 1 + gap(5), gap(9)},
          Layout{false, gap(4), gap(5), 1 + gap(9)}, Layout{false, 8, 8, 16}}) {
      SCOPED_TRACE(fmt::format("rows first {} before {} gaps {} {}", layout.rows_first,
                               layout.before, layout.row_gap, layout.gap));
      expect_same(run(stack, {.tensors = {.strided = true}, .layout = layout}), want);
    }
    // A plan for strided tensors takes those without gaps, too.
    expect_same(run(stack, {.tensors = {.strided = true}}), want);
  });
}

TEST_P(AdaptedPlan, AbsentBiasesAreZero) {
  for_each_case([&](StackCase& stack) {
    for (oracle::Weights& set : stack.weights) {
      std::ranges::fill(set.bias_ih, 0);
      std::ranges::fill(set.bias_hh, 0);
    }
    expect_same(run(stack, {.biases = false}), run(stack, kPlain));
  });
}

TEST_P(AdaptedPlan, TakesAllOfItAtOnce) {
  for_each_case([&](StackCase& stack) {
    for (oracle::Weights& set : stack.weights) {
      std::ranges::fill(set.bias_ih, 0);
      std::ranges::fill(set.bias_hh, 0);
    }
    round(stack.weights, DType::kFloat16);
    round(stack.gradients_before, DType::kFloat16);
    round(stack.input.c0, DType::kBFloat16);
    round(stack.flow.dcn, DType::kBFloat16);
    Tensors want = run(stack, kPlain);
    for (auto& [name, values] : want) {
      if (name.starts_with("gradient")) round(values, DType::kFloat16);
      if (name == "cn" || name == "dc0") round(values, DType::kBFloat16);
    }
    const CallerTensors tensors{DType::kFloat16, DType::kBFloat16, true};
    expect_same(run(stack, {true, tensors, {true, 3, 2, 5}, false}), want);
  });
}

/// Writes numbers that tests chose in forward, and keeps what backward gets of them.
class RecordingPlan final : public Plan {
 public:
  struct Numbers {
    Tensor y, cn;
  };
  RecordingPlan(const Numbers& written, const Numbers& seen) : written_(written), seen_(seen) {}

  std::string_view implementation() const override { return "recording"; }
  std::size_t packed_bytes() const override { return 0; }
  std::size_t workspace_bytes() const override { return 0; }
  std::size_t reserve_bytes() const override { return 0; }
  void pack(const Context&, const std::vector<LayerWeights>&, const Memory&) override {}
  void forward(const Context& context, const ForwardArgs& args, const Memory&) override {
    context.copy(args.y, written_.y);
    context.copy(args.cn, written_.cn);
  }
  void backward(const Context& context, const BackwardArgs& args, const Memory&) override {
    context.copy(seen_.y, args.forward.y);
    context.copy(seen_.cn, args.forward.cn);
  }

 private:
  Numbers written_, seen_;
};

// Few implementations read y and cn in backward, but any may.
TEST_P(AdaptedPlan, BackwardSeesTheOutputsOfForward) {
  Descriptor d;
  d.input = 3;
  d.hidden = 5;
  d.time = 4;
  d.rows = 3;
  d.training = true;
  const Shape shape{3, 2, 5}, cells{1, 2, 5};
  Vector y(30), cn(10);
  for (Vector* values : {&y, &cn}) {
    for (double& value : *values) value = static_cast<double>(random_() % 64) / 64;
  }
  const RecordingPlan::Numbers written{put_as(DType::kFloat32, y, shape),
                                       put_as(DType::kFloat32, cn, cells)};
  const RecordingPlan::Numbers seen{poisoned(DType::kFloat32, shape),
                                    poisoned(DType::kFloat32, cells)};
  const auto plan = adapt(d, {DType::kFloat32, DType::kFloat16, true},
                          std::make_unique<RecordingPlan>(written, seen));
  const Guarded workspace(*device_, context_, plan->workspace_bytes());
  const Memory memory{nullptr, workspace.data(), nullptr};
  const Layout layout{true, 1, 2, 3};
  const Placed placed = place(layout, DType::kFloat32, shape);
  BackwardArgs args;
  args.forward.time = 3;
  args.forward.rows = 2;
  args.forward.x = place(layout, DType::kFloat32, {3, 2, 3}, Vector(18, 0.5)).tensor;
  args.forward.y = placed.tensor;
  args.forward.cn = poisoned(DType::kFloat16, cells);
  plan->forward(context_, args.forward, memory);
  EXPECT_EQ(taken(placed), y);
  EXPECT_EQ(values_of(args.forward.cn), cn);
  sluice::testing::poison(context_, workspace.data(), plan->workspace_bytes());
  plan->backward(context_, args, memory);
  EXPECT_EQ(values_of(seen.y), y);
  EXPECT_EQ(values_of(seen.cn), cn);
  EXPECT_TRUE(workspace.is_intact());
}

}  // namespace
}  // namespace sluice::kernels::recurrent::testing
