#include <gtest/gtest.h>

#include <string_view>
#include <tuple>

#include "base/dtype.h"
#include "unit/kernels_recurrent/on_candidate.h"
#include "unit/support/on_device.h"

namespace sluice::kernels::recurrent::testing {
namespace {

/// A device and a precision.
using Parameter = std::tuple<const char*, const char*>;

std::string parameter_name(const ::testing::TestParamInfo<Parameter>& parameter) {
  return fmt::format("{}_{}", std::get<0>(parameter.param), std::get<1>(parameter.param));
}

/// The training workspace of long stacks on a GPU.
class RecurrentWorkspace : public OnCandidate<Parameter> {
 protected:
  RecurrentWorkspace() : OnCandidate(is_exact() ? "graph" : "persistent-cluster-wgmma") {}

  static runtime::Precision precision() {
    return runtime::Precision::parse(std::get<1>(GetParam()));
  }
  static bool is_exact() { return precision().storage == DType::kFloat32 && !precision().tf32; }
};

INSTANTIATE_TEST_SUITE_P(, RecurrentWorkspace,
                         ::testing::Combine(sluice::testing::devices(),
                                            ::testing::Values("bfloat16", "float16", "tf32",
                                                              "float32")),
                         parameter_name);

// Gate gradients and input products lie in the reserve, or some steps' at a time in the workspace.
TEST_P(RecurrentWorkspace, OfALanguageModelIsSmall) {
  Descriptor model;
  model.layers = 3;
  model.input = model.hidden = 384;
  model.time = 128;
  model.rows = 512;
  model.dtype = precision().storage;
  model.tf32 = precision().tf32;
  model.training = true;
  if (gpu_lacks(model)) GTEST_SKIP() << "this GPU cannot run the implementation";
  const bool halves = base::size_of(model.dtype) == 2;
  const std::size_t most = model.tf32 ? 400 : halves ? 110 : 205;
  EXPECT_LE(candidate_->create(model, *device_)->workspace_bytes() >> 20, most);
}

}  // namespace
}  // namespace sluice::kernels::recurrent::testing
