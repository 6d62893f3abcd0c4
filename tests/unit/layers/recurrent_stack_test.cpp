#include "layers/recurrent_stack.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/embedding/embedding.h"
#include "unit/support/on_device.h"

namespace sluice::layers {
namespace {

namespace recurrent = kernels::recurrent;

/// What backward is given to overlap with itself adds 1 to a number.
class RecurrentStackOverlap : public sluice::testing::OnDevice {
 protected:
  /// Runs forward and backward three times, for a GPU's implementation queues the first time,
  /// captures the second and replays from the third on; then all of it captured by the caller.
  void expect_once(const recurrent::Descriptor& architecture, std::int64_t rows = 3,
                   DType dtype = DType::kFloat32) {
    constexpr std::int64_t kTime = 4;
    Parameters parameters;
    const RecurrentStack stack(parameters, "stack", architecture);
    parameters.allocate(context_, DType::kFloat32, true);
    parameters.initialize(context_, 7);
    runtime::ArenaPlanner planner;
    RecurrentStackPlan plan(context_, stack, planner, kTime, rows, dtype, true);
    const runtime::Arena arena(*device_, planner);
    plan.pack(context_, arena, parameters);

    recurrent::ForwardArgs forward;
    forward.time = kTime;
    forward.rows = rows;
    forward.x = filled({kTime, rows, architecture.input}, 0.5f, dtype);
    forward.y = poisoned(dtype, {kTime, rows, architecture.y_width()});
    recurrent::BackwardArgs backward;
    backward.forward = forward;
    backward.dy = filled(forward.y.shape(), 1.0f, dtype);
    backward.dx = poisoned(dtype, forward.x.shape());
    const Tensor number = filled({1, 1}, 0.0f), one = filled({1, 1}, 1.0f);
    const Tensor place = put(std::vector<std::int32_t>{0});
    int calls = 0;
    const recurrent::OverlapWork work = [&](const Context& side) {
      ++calls;
      kernels::embedding::gather_backward(side, {.tokens = place, .d_out = one, .d_table = number});
    };
    backward.overlap_work = &work;
    int forward_calls = 0;
    const recurrent::OverlapWork forward_work = [&](const Context&) { ++forward_calls; };
    forward.overlap_work = &forward_work;
    const auto step = [&] {
      plan.forward(context_, arena, forward);
      plan.backward(context_, arena, parameters, backward);
    };

    std::vector<float> gradients;
    for (int run = 1; run <= 3; ++run) {
      context_.zero(parameters.gradients());
      step();
      EXPECT_EQ(calls, run);
      EXPECT_EQ(forward_calls, run);
      EXPECT_EQ(get_scalar<float>(number), static_cast<float>(run));
      const std::vector<float> now = get<float>(parameters.gradients());
      if (run == 1) gradients = now;
      EXPECT_TRUE(sluice::testing::same_bits(now, gradients)) << "run " << run;
    }
    if (!context_.stream().can_capture()) return;
    const auto graph = context_.stream().capture(step);
    for (int run = 4; run <= 5; ++run) {
      context_.zero(parameters.gradients());
      graph->launch(context_.stream());
      EXPECT_EQ(get_scalar<float>(number), static_cast<float>(run));
      EXPECT_TRUE(sluice::testing::same_bits(get<float>(parameters.gradients()), gradients));
    }
    EXPECT_EQ(calls, 4);
    EXPECT_EQ(forward_calls, 4);
  }

  static recurrent::Descriptor stack_of(recurrent::CellType cell, std::int64_t layers,
                                        std::int64_t directions, std::int64_t hidden) {
    recurrent::Descriptor architecture;
    architecture.cell = cell;
    architecture.layers = layers;
    architecture.directions = directions;
    architecture.input = 8;
    architecture.hidden = hidden;
    return architecture;
  }

 private:
  Tensor filled(const Shape& shape, float value, DType dtype = DType::kFloat32) {
    const auto count = static_cast<std::size_t>(shape.element_count());
    if (dtype == DType::kFloat32) return put(std::vector<float>(count, value), shape);
    return put(std::vector<base::BFloat16>(count, base::BFloat16(value)), shape);
  }
};

INSTANTIATE_TEST_SUITE_P(Devices, RecurrentStackOverlap, sluice::testing::devices(),
                         sluice::testing::device_name);

// One layer, and layers of a launch each, of one direction and of two; a GRU beside LSTMs.
TEST_P(RecurrentStackOverlap, HappensOnceABackward) {
  expect_once(stack_of(recurrent::CellType::kLstm, 1, 1, 16));
  expect_once(stack_of(recurrent::CellType::kLstm, 2, 2, 16));
  expect_once(stack_of(recurrent::CellType::kGru, 3, 1, 24));
  expect_once(stack_of(recurrent::CellType::kLstm, 2, 1, 300));
}

// So many rows that a layer's backward is several launches on a GPU.
TEST_P(RecurrentStackOverlap, HappensOnceWithSeveralLaunchesOfALayer) {
  expect_once(stack_of(recurrent::CellType::kLstm, 2, 1, 704), 300, DType::kBFloat16);
}

}  // namespace
}  // namespace sluice::layers
