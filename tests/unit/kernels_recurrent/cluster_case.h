#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <string>
#include <string_view>
#include <tuple>

#include "unit/kernels_recurrent/on_candidate.h"
#include "unit/kernels_recurrent/stack_case.h"
#include "unit/kernels_recurrent/stack_comparison.h"
#include "unit/support/on_device.h"

/// What tests of launches that keep a layer in a cluster share.
namespace sluice::kernels::recurrent::testing {

inline constexpr std::string_view kClusterName = "persistent-cluster";
inline constexpr int kTileRows = 8;

/// Of so many blocks as many clusters run at once; layers of so many units take them.
struct ClusterSize {
  int blocks, clusters;
  std::int64_t fewest_units, most_units;

  /// Tiles of a cluster: weights of float32 leave less room, and kernels with extras have two.
  int most_tiles(DType dtype, bool extras = false) const {
    return extras || (dtype == DType::kFloat32 && blocks == 16) ? 2 : 3;
  }
  /// Of one direction, with so many tiles a cluster.
  std::int64_t most_rows(std::int64_t directions, int tiles) const {
    return clusters / directions * kTileRows * tiles;
  }
};
inline constexpr std::array kSizes{ClusterSize{4, 30, 6, 128}, ClusterSize{8, 15, 129, 256},
                                   ClusterSize{16, 7, 257, 512}};

/// A device and a precision.
using Parameter = std::tuple<const char*, const char*>;

inline std::string cluster_parameter_name(const ::testing::TestParamInfo<Parameter>& parameter) {
  return fmt::format("{}_{}", std::get<0>(parameter.param), std::get<1>(parameter.param));
}

/// Layers in one launch of clusters: only on devices that have them.
class OnClusters : public OnCandidate<Parameter> {
 protected:
  OnClusters() : OnCandidate(kClusterName) {}

  bool is_float32() const { return precision_.storage == DType::kFloat32; }
  RunOptions options() const {
    return {std::get<0>(GetParam()), std::string(kClusterName), 1, precision_.tf32};
  }

  /// Runs it, by `options`, and again for the same bits.
  void compare(const StackCase& stack, const RunOptions& options) const {
    ASSERT_EQ(refusal(stack.descriptor), std::nullopt);
    const Tensors got = run(stack, options);
    expect_accurate(got, stack, {.tf32 = precision_.tf32});
    EXPECT_EQ(run(stack, this->options()), got);
  }
  void compare(const StackCase& stack) const { compare(stack, options()); }

  /// Makes states and gradients so large and recurrent weights so small that float16 couldn't hold
  /// them: of a layer in float32.
  void enlarge(StackCase& stack) {
    if (stack.input.h0.empty()) {
      const std::int64_t states = stack.descriptor.h_shape(stack.rows).element_count();
      stack.input.h0.assign(static_cast<std::size_t>(states), 1.0);
    }
    const double large = std::ldexp(1.0, 20 + static_cast<int>(draw(0, 10)));
    for (double& h : stack.input.h0) h *= large;
    for (double& w : stack.weights.front().weight_hh) w /= large;
    for (double& d : stack.flow.dy) d *= large;
  }

  /// Which also holds the rows of the test against those of the launch.
  void expect_most_rows(Descriptor layer, std::int64_t most) const {
    layer.rows = most;
    EXPECT_EQ(refusal(layer), std::nullopt);
    layer.rows = most + 1;
    EXPECT_EQ(refusal(layer),
              fmt::format("its clusters take {} rows at once, not {}", most, most + 1));
  }

  const runtime::Precision precision_ = runtime::Precision::parse(std::get<1>(GetParam()));
};

/// At every size of cluster and number of tiles.
class RecurrentClusters : public OnClusters {
 protected:
  /// One layer of a few steps, as wide as the cluster or less.
  Descriptor layer_of(const ClusterSize& size, CellType cell, std::int64_t directions) {
    Descriptor d;
    d.cell = cell;
    d.directions = directions;
    d.input = draw(6, 40);
    d.hidden = draw(0, 1) == 0 ? size.most_units : draw(size.fewest_units, size.most_units);
    d.time = draw(3, 6);
    d.dtype = precision_.storage;
    d.rows = fewest_rows();
    d.training = true;
    return d;
  }
  /// The same, a little narrower if need be, for any rows that clusters take: of many rows LSTMs in
  /// 16 bits of a multiple of eight units are trained by launches for many.
  static Descriptor for_most_rows(Descriptor layer) {
    if (layer.hidden > kSizes[1].most_units && layer.hidden % 8 == 0) --layer.hidden;
    return layer;
  }
  /// Fewer of float32 are the whole GPU's (persistent-grid).
  std::int64_t fewest_rows() const { return is_float32() ? 5 : 1; }
};

}  // namespace sluice::kernels::recurrent::testing
