#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/recurrent/recurrent.h"
#include "unit/kernels_recurrent/stack_comparison.h"
#include "unit/support/on_device.h"
#include "unit/support/part_of_gpu.h"

namespace sluice::kernels::recurrent::testing {
namespace {

constexpr auto kLstm = CellType::kLstm, kGru = CellType::kGru;
constexpr auto k16Bits = DType::kFloat16, kTf32 = DType::kFloat32;

/// A layer of 100 steps as wide as its input, and who runs it on an H200 by the measurements in
/// docs/performance/.
struct Chosen {
  std::int64_t hidden, rows;
  std::string_view training, inference;
  CellType cell = kLstm;
  DType dtype = DType::kBFloat16;
  std::int64_t layers = 1, directions = 1;

  Descriptor descriptor(bool trains) const {
    Descriptor d;
    d.cell = cell;
    d.dtype = dtype;
    d.layers = layers;
    d.directions = directions;
    d.input = d.hidden = hidden;
    d.rows = rows;
    d.time = 100;
    d.training = trains;
    return d;
  }
};

constexpr Chosen kChosen[]{
    {256, 70, "persistent-cluster", "persistent-cluster"},
    {256, 70, "persistent-cluster", "persistent-cluster", kGru, k16Bits, 3},
    {256, 70, "persistent-cluster", "persistent-cluster", kLstm, k16Bits, 1, 2},
    {384, 129, "persistent-cluster", "persistent-cluster"},
    {384, 130, "persistent-cluster-wide", "persistent-cluster"},
    {384, 130, "persistent-cluster", "persistent-cluster", kGru},
    {384, 176, "persistent-cluster-wide", "persistent-cluster-wgmma"},
    {384, 512, "persistent-cluster-wgmma", "persistent-cluster-wgmma"},
    {384, 512, "persistent-cluster-wgmma", "persistent-cluster-wgmma", kLstm, k16Bits, 3},
    {384, 512, "persistent-cluster-wide", "persistent-cluster-wgmma", kGru},
    {384, 512, "persistent-cluster-wgmma", "persistent-cluster-wgmma", kLstm, kTf32, 3},
    {512, 135, "persistent-cluster", "persistent-cluster"},
    {512, 136, "persistent-wide-cluster", "persistent-cluster"},
    {512, 160, "persistent-wide-cluster", "persistent-cluster", kLstm, k16Bits, 3},
    {512, 70, "persistent-cluster", "persistent-cluster", kLstm, k16Bits, 1, 2},
    {512, 300, "persistent-wide", "persistent-wide"},
    {1024, 8, "persistent-grid", "persistent-grid"},
    {1024, 70, "persistent-wide", "persistent-wide"},
    {2048, 32, "persistent-streamed", "persistent-wide"},
    {4096, 32, "persistent-streamed-forward", "persistent-streamed"},
};

/// Plans by name.
using Launches = std::vector<std::pair<std::string_view, Descriptor>>;

/// Launches whose blocks wait for each other, and which few of a GPU's multiprocessors can't have:
/// all but those whose clusters of up to eight blocks don't wait for other clusters.
Launches waiting_launches() {
  Descriptor projected;
  projected.layers = 4;
  projected.input = 240;
  projected.hidden = 1536;
  projected.projections = {320, 320, 320, 320};
  projected.time = 4;
  projected.rows = 1;
  projected.dtype = DType::kBFloat16;
  const Chosen wide{1024, 70, "", ""};
  Launches launches{{"persistent-projected", projected},
                    {"persistent-forward", wide.descriptor(true)}};
  for (const Chosen& one : kChosen) {
    for (const bool training : {false, true}) {
      const std::string_view name = training ? one.training : one.inference;
      if (name == "persistent-cluster-wgmma") continue;
      if (name == "persistent-cluster" && one.hidden <= 256) continue;
      launches.emplace_back(name, one.descriptor(training));
    }
  }
  return launches;
}

class RecurrentChoice : public sluice::testing::OnDevice {
 protected:
  /// The device's context, in which products of float32 are TF32's.
  RecurrentChoice() { context_.set_precision(runtime::Precision::parse("tf32")); }

  bool has(std::string_view name) const {
    const auto list = candidates(context_.device());
    return std::ranges::find(list, name, &Candidate::name) != list.end();
  }
  /// Who is taken, and why not those before; "" if the GPU lacks some that would be asked before.
  std::string taken(const Descriptor& d, std::string& reasons) const {
    const Choice choice = make_plan(context_, d);
    for (const Declined& declined : choice.declined) {
      if (declined.reason.find("this GPU") != std::string::npos) return "";
      reasons += std::string(declined.name) + ": " + declined.reason + "\n";
    }
    return std::string(choice.plan->implementation());
  }
  /// Why it can't be planned, or "".
  std::string refusal(std::string_view name, const Descriptor& descriptor) const {
    try {
      make_plan(context_, descriptor, name);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
      return error.what();
    }
    return "";
  }
};

INSTANTIATE_TEST_SUITE_P(, RecurrentChoice, sluice::testing::devices(),
                         sluice::testing::device_name);

TEST_P(RecurrentChoice, IsWhatWasMeasured) {
  if (!has("persistent-cluster")) GTEST_SKIP() << "this device has other implementations";
  for (const Chosen& want : kChosen) {
    for (const bool training : {false, true}) {
      const Descriptor d = want.descriptor(training);
      std::string reasons;
      const std::string got = taken(d, reasons);
      if (got.empty()) GTEST_SKIP() << "the choice was not measured on this GPU";
      StackCase stack;
      stack.descriptor = d;
      EXPECT_EQ(got, training ? want.training : want.inference) << describe(stack) << "\n"
                                                                << reasons;
    }
  }
}

// Where not all blocks that wait for each other would run at once, nothing is begun.
TEST_P(RecurrentChoice, RefusesLaunchesThatDoNotRunAtOnce) {
  if (!has("persistent-cluster")) GTEST_SKIP() << "this device has other implementations";
  const Launches launches = waiting_launches();
  for (const auto& [name, descriptor] : launches) {
    const std::string reason = refusal(name, descriptor);
    if (reason.find("GPU") != std::string::npos) GTEST_SKIP() << reason;
    ASSERT_EQ(reason, "") << name;
  }
  const sluice::testing::PartOfGpu part(8);
  for (const auto& [name, descriptor] : launches) {
    const std::string reason = refusal(name, descriptor);
    EXPECT_NE(reason.find("this GPU"), std::string::npos) << name << ": " << reason;
  }
}

}  // namespace
}  // namespace sluice::kernels::recurrent::testing
