#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <tuple>

#include "unit/kernels_recurrent/on_candidate.h"
#include "unit/kernels_recurrent/stack_case.h"
#include "unit/kernels_recurrent/stack_comparison.h"
#include "unit/support/on_device.h"

namespace sluice::kernels::recurrent::testing {
namespace {

/// A device, an implementation whose backward steps are products of cuBLASLt's, and a type.
using Parameter = std::tuple<const char*, const char*, DType>;

std::string parameter_name(const ::testing::TestParamInfo<Parameter>& parameter) {
  const auto& [device, implementation, dtype] = parameter.param;
  std::string name = std::string(device) + "_" + implementation;
  std::ranges::replace(name, '-', '_');
  return name + "_" + std::string(base::name_of(dtype));
}

/// Layers so wide that the product of a backward step is cut into parts, which the next cell adds
/// up.
class RecurrentStepParts : public OnCandidate<Parameter> {
 protected:
  RecurrentStepParts() : OnCandidate(std::get<1>(GetParam())) {}

  /// So many units, planned for so many rows, of which a few run.
  StackCase case_of(std::int64_t hidden, std::int64_t planned) {
    StackCase stack;
    Descriptor& d = stack.descriptor;
    d.cell = CellType::kLstm;
    d.input = draw(3, 20);
    d.hidden = hidden;
    d.dtype = std::get<2>(GetParam());
    d.training = true;
    d.rows = planned;
    d.time = draw(2, 4);
    stack.time = draw(2, d.time);
    stack.rows = draw(1, std::min<std::int64_t>(planned, 6));
    return stack;
  }

  /// Both passes against the oracle; captured, too.
  void compare(const StackCase& stack) {
    SCOPED_TRACE(describe(stack));
    if (gpu_lacks(stack.descriptor)) return;
    RunOptions options = OnCandidate::options();
    const Tensors mine = run(stack, options);
    expect_accurate(mine, stack);
    options.rounds = 3;
    EXPECT_EQ(run(stack, options), mine);
  }
};

INSTANTIATE_TEST_SUITE_P(, RecurrentStepParts,
                         ::testing::Combine(sluice::testing::devices(),
                                            ::testing::Values("graph", "persistent-forward"),
                                            ::testing::Values(DType::kBFloat16, DType::kFloat16)),
                         parameter_name);

// One a gate, or one for two gates; of more rows all gates are one.
TEST_P(RecurrentStepParts, EqualOracle) {
  const bool any_width = std::string(std::get<1>(GetParam())) == "graph";
  for (const bool lengths : {false, true}) {
    for (const auto& [hidden, planned] :
         {std::pair{8 * draw(182, 190), draw(1, 12)}, std::pair{8 * draw(265, 270), draw(1, 12)},
          std::pair{8 * draw(265, 270), draw(129, 140)}}) {
      if (!any_width && hidden > 2048) continue;
      StackCase stack = case_of(hidden, planned);
      fill_case(random_, stack);
      // The cells of rows that end add nothing up.
      if (!lengths) stack.input.lengths.clear();
      compare(stack);
    }
  }
}

}  // namespace
}  // namespace sluice::kernels::recurrent::testing
