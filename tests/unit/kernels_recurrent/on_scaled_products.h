#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <tuple>

#include "unit/kernels_recurrent/on_candidate.h"
#include "unit/kernels_recurrent/stack_case.h"
#include "unit/kernels_recurrent/stack_comparison.h"
#include "unit/support/on_device.h"

namespace sluice::kernels::recurrent::testing {

/// A device, and an implementation whose large products in TF32 are of scaled float16.
using ScaledParameter = std::tuple<const char*, const char*>;

inline std::string scaled_parameter_name(
    const ::testing::TestParamInfo<ScaledParameter>& parameter) {
  std::string name = std::get<1>(parameter.param);
  std::ranges::replace(name, '-', '_');
  return std::string(std::get<0>(parameter.param)) + "_" + name;
}

/// All of them.
inline auto scaled_parameters() {
  return ::testing::Combine(sluice::testing::devices(),
                            ::testing::Values("persistent-cluster", "persistent-wide", "graph"));
}

/// Against an implementation whose products are cuBLASLt's in TF32: for the oracle such layers are
/// too large, and against that every implementation is held with small ones.
class OnScaledProducts : public OnCandidate<ScaledParameter> {
 protected:
  OnScaledProducts() : OnCandidate(std::get<1>(GetParam())) {}

  static bool is(std::string_view implementation) {
    return std::get<1>(GetParam()) == implementation;
  }

  Tensors run_by(const StackCase& stack, std::string_view implementation, int rounds = 1) const {
    RunOptions options = OnCandidate::options();
    options.implementation = implementation;
    options.tf32 = true;
    options.rounds = rounds;
    return run(stack, options);
  }
  Tensors got(const StackCase& stack, int rounds = 1) const {
    return run_by(stack, std::get<1>(GetParam()), rounds);
  }
  Tensors wanted(const StackCase& stack) const { return run_by(stack, "pretransposed"); }

  /// Both err by what TF32 does, of which cutting off is three times what float16's rounding is.
  static double tolerance() { return 4 * tolerance_of(DType::kFloat16); }

  void compare(const StackCase& stack) const {
    const Tensors mine = got(stack);
    expect_close(mine, wanted(stack), tolerance());
    EXPECT_EQ(got(stack), mine);
  }
};

}  // namespace sluice::kernels::recurrent::testing
