#include <gtest/gtest.h>

#include <map>
#include <utility>

#include "kernels/recurrent/cuda/stack_step/order.h"

namespace sluice::kernels::recurrent::cuda::stack_step {
namespace {

/// Runs all steps, `most` at a time; returns how many times that takes.
int run_all(std::int64_t layers, std::int64_t rows, std::int64_t each, std::int64_t time,
            std::int64_t most) {
  StackOrder order(layers, rows, each, time);
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> done;  // of layer and row
  int times = 0;
  for (auto steps = order.next(most); !steps.empty(); steps = order.next(most), ++times) {
    EXPECT_LE(steps.size(), static_cast<std::size_t>(most));
    for (const auto& step : steps) {
      EXPECT_EQ(step.number, (done[{step.layer, step.first_row}]));
      if (step.layer > 0) {
        EXPECT_GT((done[{step.layer - 1, step.first_row}]), step.number);
      }
    }
    for (const auto& step : steps) ++done[{step.layer, step.first_row}];
  }
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    for (std::int64_t row = 0; row < rows; row += each) EXPECT_EQ((done[{layer, row}]), time);
  }
  EXPECT_EQ(done.size(), static_cast<std::size_t>(layers * ((rows + each - 1) / each)));
  return times;
}

TEST(StackOrder, RunsEachStepOnceBehindThoseItWaitsFor) {
  EXPECT_EQ(run_all(3, 1, 128, 1, 1), 3);
  EXPECT_EQ(run_all(2, 300, 128, 20, 6), 21);
  EXPECT_EQ(run_all(4, 257, 128, 3, 11), 6);
  // Of 12 that are ready at a time 11 run: a twelfth more, and what begins and ends.
  EXPECT_EQ(run_all(3, 512, 128, 128, 11), 142);
}

}  // namespace
}  // namespace sluice::kernels::recurrent::cuda::stack_step
