#include <gtest/gtest.h>

#include <tuple>

#include "unit/kernels_recurrent/on_candidate.h"
#include "unit/kernels_recurrent/stack_case.h"
#include "unit/kernels_recurrent/stack_comparison.h"
#include "unit/support/on_device.h"

namespace sluice::kernels::recurrent::testing {
namespace {

/// Layers of float32 that are so large that a GPU multiplies them by parts of bfloat16, steps and
/// gradients too, where it can, and stacks whose layers step together there: small random cases
/// never are. On devices with a ladder.
class RecurrentByParts : public OnCandidate<std::tuple<const char*>> {
 protected:
  RecurrentByParts() : OnCandidate("graph") {}

  void compare(CellType cell, std::int64_t units, std::int64_t rows) {
    StackCase stack;
    Descriptor& d = stack.descriptor;
    d.cell = cell;
    d.input = d.hidden = units;
    d.time = stack.time = 2;
    d.rows = stack.rows = rows;
    d.training = true;
    compare(stack);
  }

  void compare(StackCase& stack) {
    fill_case(random_, stack);
    SCOPED_TRACE(describe(stack));
    const Tensors got = run(stack, options());
    expect_close(got, expected(stack), tolerance_of(DType::kFloat32));
    EXPECT_EQ(run(stack, options()), got);
  }
};

INSTANTIATE_TEST_SUITE_P(, RecurrentByParts, ::testing::Combine(sluice::testing::devices()),
                         [](const auto& parameter) {
                           return std::string(std::get<0>(parameter.param));
                         });

TEST_P(RecurrentByParts, LstmEqualsOracle) { compare(CellType::kLstm, 384, draw(500, 512)); }
TEST_P(RecurrentByParts, GruEqualsOracle) { compare(CellType::kGru, 512, draw(350, 380)); }

// Of a GPU more steps are ready at a time than a kernel takes; whole tiles of rows and a partial
// one.
TEST_P(RecurrentByParts, StacksEqualOracle) {
  for (const bool training : {true, false}) {
    StackCase stack;
    Descriptor& d = stack.descriptor;
    d.cell = CellType::kLstm;
    d.layers = 4;
    d.input = draw(20, 50);
    d.hidden = training ? 384 : 64 * draw(4, 6);
    d.time = stack.time = draw(4, 5);
    d.rows = stack.rows = draw(257, 270);
    d.training = training;
    if (training) d.dropout = 0.3;
    compare(stack);
  }
}

}  // namespace
}  // namespace sluice::kernels::recurrent::testing
