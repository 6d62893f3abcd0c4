#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "unit/kernels_recurrent/stack_case.h"
#include "unit/kernels_recurrent/stack_comparison.h"
#include "unit/kernels_recurrent/subject.h"
#include "unit/support/declined_cases.h"

namespace sluice::kernels::recurrent::testing {
namespace {

/// Sizes of one layer, of which each implementation takes those that it is for: few units or rows
/// where steps are many, so that the oracle is through with them in a second or so.
struct Sizes {
  std::int64_t time, units, rows;
  int directions = 1;
  bool wide = false;  ///< takes the oracle ten seconds: for implementations that take no other
};
constexpr std::array kSizes{Sizes{4096, 24, 3}, Sizes{1024, 40, 5, 2}, Sizes{1024, 144, 2},
                            Sizes{1024, 520, 1, 1, true}};

class LongSequences : public ::testing::TestWithParam<SubjectAndPrecision> {
 protected:
  const Subject& subject() const { return std::get<0>(GetParam()); }
  void TearDown() override {
    if (const auto reason = cases_.all_declined()) GTEST_SKIP() << *reason;
  }

  Descriptor layer_of(const Sizes& sizes, CellType cell) const {
    const auto precision = runtime::Precision::parse(std::get<1>(GetParam()));
    Descriptor d;
    d.cell = cell;
    d.input = 16;
    d.hidden = sizes.units;
    d.directions = sizes.directions;
    d.time = sizes.time;
    d.rows = sizes.rows;
    d.dtype = precision.storage;
    d.tf32 = precision.tf32;
    d.training = true;
    return d;
  }

  /// With gradients of all outputs, and all gradients asked for. The first row has all steps, the
  /// others end anywhere.
  StackCase case_of(const Descriptor& layer) {
    StackCase stack;
    const auto is_whole = [&] {
      return !stack.flow.dy.empty() && !stack.flow.dhn.empty() && stack.want_gradients &&
             stack.want_dx && stack.want_states && !stack.input.h0.empty();
    };
    do {
      stack = StackCase{};
      stack.descriptor = layer;
      stack.time = layer.time;
      stack.rows = layer.rows;
      fill_case(random_, stack);
    } while (!is_whole());
    stack.input.lengths.assign(static_cast<std::size_t>(layer.rows), static_cast<int>(layer.time));
    for (std::size_t row = 1; row < stack.input.lengths.size(); ++row) {
      stack.input.lengths[row] =
          std::uniform_int_distribution<int>(1, static_cast<int>(layer.time))(random_);
    }
    return stack;
  }

  sluice::testing::DeclinedCases cases_;
  const std::uint64_t seed_ = seed();
  std::mt19937_64 random_{seed_};
  const ::testing::ScopedTrace trace_{__FILE__, __LINE__,
                                      fmt::format("SLUICE_TEST_SEED={}", seed_)};
};

INSTANTIATE_TEST_SUITE_P(, LongSequences, ::testing::ValuesIn(own_subjects()), parameter_name);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(LongSequences);

// Errors of thousands of steps back add up in gradients of weights, and die away in those of
// states: either is what a plain implementation has.
TEST_P(LongSequences, HaveTheGradientsOfTheOracle) {
  for (const CellType cell : {CellType::kLstm, CellType::kGru}) {
    bool ran = subject().device == "cpu";
    for (const Sizes& sizes : kSizes) {
      if (sizes.wide && ran) continue;
      const Descriptor layer = layer_of(sizes, cell);
      if (!cases_.take(subject().implementation, subject().refusal(layer))) continue;
      ran = true;
      const StackCase stack = case_of(layer);
      SCOPED_TRACE(describe(stack));
      expect_accurate(run(stack, {subject().device, subject().implementation, 1, layer.tf32}),
                      stack);
    }
  }
}

}  // namespace
}  // namespace sluice::kernels::recurrent::testing
