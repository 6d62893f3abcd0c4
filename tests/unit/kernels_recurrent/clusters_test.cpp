#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <tuple>

#include "base/dtype.h"
#include "unit/kernels_recurrent/stack_case.h"
#include "unit/kernels_recurrent/stack_comparison.h"
#include "unit/support/on_device.h"

namespace sluice::kernels::recurrent::testing {
namespace {

constexpr std::string_view kName = "persistent-cluster";
constexpr int kTileRows = 8, kMostTiles = 3;

/// Of so many blocks as many clusters run at once; layers of so many units take them.
struct ClusterSize {
  int blocks, clusters;
  std::int64_t fewest_units, most_units;

  /// Of one direction, with so many tiles a cluster.
  std::int64_t most_rows(std::int64_t directions, int tiles) const {
    return clusters / directions * kTileRows * tiles;
  }
};
constexpr std::array kSizes{ClusterSize{4, 30, 6, 128}, ClusterSize{8, 15, 129, 256},
                            ClusterSize{16, 7, 257, 512}};

std::string parameter_name(
    const ::testing::TestParamInfo<std::tuple<const char*, DType>>& parameter) {
  return fmt::format("{}_{}", std::get<0>(parameter.param),
                     base::name_of(std::get<1>(parameter.param)));
}

/// Layers in one launch, at every size of cluster and number of tiles: only on devices that have
/// them.
class RecurrentClusters : public ::testing::TestWithParam<std::tuple<const char*, DType>> {
 protected:
  void SetUp() override {
    device_ = runtime::open_device(std::get<0>(GetParam()));
    const auto list = candidates(*device_);
    const auto found = std::ranges::find(list, kName, &Candidate::name);
    if (found == list.end()) GTEST_SKIP();
    candidate_ = &*found;
  }

  std::int64_t draw(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
  }
  /// One layer of a few steps, as wide as the cluster or less.
  Descriptor layer_of(const ClusterSize& size, CellType cell, std::int64_t directions) {
    Descriptor d;
    d.cell = cell;
    d.directions = directions;
    d.input = draw(6, 40);
    d.hidden = draw(0, 1) == 0 ? size.most_units : draw(size.fewest_units, size.most_units);
    d.time = draw(3, 6);
    d.rows = 1;
    d.dtype = std::get<1>(GetParam());
    d.training = true;
    return d;
  }
  std::optional<std::string> refusal(const Descriptor& descriptor) const {
    return candidate_->refuse(descriptor, *device_);
  }
  /// Whether the GPU has no such clusters, which is the only good reason against such a layer.
  bool gpu_lacks(const Descriptor& layer) const {
    const auto reason = refusal(layer);
    EXPECT_TRUE(!reason || reason->find("GPU") != std::string::npos) << *reason;
    return reason.has_value();
  }
  RunOptions options() const { return {std::get<0>(GetParam()), std::string(kName)}; }
  double tolerance() const { return tolerance_of(std::get<1>(GetParam())); }

  std::unique_ptr<runtime::Device> device_;
  const Candidate* candidate_ = nullptr;
  const std::uint64_t seed_ = seed();
  std::mt19937_64 random_{seed_};
  const ::testing::ScopedTrace trace_{__FILE__, __LINE__,
                                      fmt::format("SLUICE_TEST_SEED={}", seed_)};
};

INSTANTIATE_TEST_SUITE_P(, RecurrentClusters,
                         ::testing::Combine(sluice::testing::devices(),
                                            ::testing::Values(DType::kBFloat16, DType::kFloat16)),
                         parameter_name);

TEST_P(RecurrentClusters, EqualOracleAtEveryNumberOfTiles) {
  int compared = 0;
  for (const ClusterSize& size : kSizes) {
    for (const CellType cell : {CellType::kLstm, CellType::kGru}) {
      for (const std::int64_t directions : {1, 2}) {
        const Descriptor one_row = layer_of(size, cell, directions);
        if (gpu_lacks(one_row)) continue;
        for (int tiles = 1; tiles <= kMostTiles; ++tiles) {
          const std::int64_t most = size.most_rows(directions, tiles);
          StackCase stack;
          stack.descriptor = one_row;
          stack.time = draw(3, one_row.time);
          stack.rows =
              draw(0, 2) == 0 ? most : draw(size.most_rows(directions, tiles - 1) + 1, most);
          stack.descriptor.rows =
              std::min(stack.rows + draw(0, 3), size.most_rows(directions, kMostTiles));
          fill_case(random_, stack);
          SCOPED_TRACE(fmt::format("{} blocks, {} tiles: {}", size.blocks, tiles, describe(stack)));
          ASSERT_EQ(refusal(stack.descriptor), std::nullopt);
          expect_close(run(stack, options()), expected(stack), tolerance());
          ++compared;
        }
      }
    }
  }
  if (compared == 0) GTEST_SKIP();
}

// Which also holds the rows above against those of the launch.
TEST_P(RecurrentClusters, RefuseOneRowTooMany) {
  int asked = 0;
  for (const ClusterSize& size : kSizes) {
    for (const CellType cell : {CellType::kLstm, CellType::kGru}) {
      for (const std::int64_t directions : {1, 2}) {
        Descriptor layer = layer_of(size, cell, directions);
        if (gpu_lacks(layer)) continue;
        const std::int64_t most = size.most_rows(directions, kMostTiles);
        SCOPED_TRACE(fmt::format("{} blocks, {} directions", size.blocks, directions));
        layer.rows = most;
        EXPECT_EQ(refusal(layer), std::nullopt);
        layer.rows = most + 1;
        EXPECT_EQ(refusal(layer),
                  fmt::format("its clusters take {} rows at once, not {}", most, most + 1));
        ++asked;
      }
    }
  }
  if (asked == 0) GTEST_SKIP();
}

TEST_P(RecurrentClusters, RefuseSingleSteps) {
  Descriptor layer = layer_of(kSizes.front(), CellType::kLstm, 1);
  if (gpu_lacks(layer)) GTEST_SKIP();
  layer.time = 1;
  EXPECT_TRUE(refusal(layer).has_value());
}

// Ten thousand launches that leave nothing behind: of each plan's two hundred runs the last counts.
TEST_P(RecurrentClusters, SurviveManyLaunches) {
  if (std::get<1>(GetParam()) != DType::kBFloat16) GTEST_SKIP();
  for (int trial = 0; trial < 25; ++trial) {
    StackCase stack = random_case(random_, {DType::kBFloat16, 9, 60, 200});
    if (refusal(stack.descriptor)) continue;
    stack.want_gradients = false;
    SCOPED_TRACE(describe(stack));
    RunOptions many = options();
    many.rounds = 200;
    expect_close(run(stack, many), expected(stack), tolerance());
  }
}

}  // namespace
}  // namespace sluice::kernels::recurrent::testing
