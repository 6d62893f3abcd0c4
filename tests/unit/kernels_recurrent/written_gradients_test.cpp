#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <random>
#include <string>
#include <string_view>
#include <tuple>

#include "unit/kernels_recurrent/stack_case.h"
#include "unit/kernels_recurrent/stack_comparison.h"
#include "unit/kernels_recurrent/subject.h"
#include "unit/support/declined_cases.h"
#include "unit/support/on_device.h"

namespace sluice::kernels::recurrent::testing {
namespace {

runtime::Precision precision_of(const std::string& name) {
  if (name == "float64") return {DType::kFloat64};
  return runtime::Precision::parse(name);
}

void fill_gradients(StackCase& stack, double value) {
  for (oracle::Weights& layer : stack.gradients_before) {
    for (auto* values :
         {&layer.weight_ih, &layer.weight_hh, &layer.bias_ih, &layer.bias_hh, &layer.weight_hr,
          &layer.peephole, &layer.gain_ih, &layer.gain_hh, &layer.gain_c, &layer.shift_c}) {
      std::ranges::fill(*values, value);
    }
  }
}

/// Weight gradients that are written over NaN have the bits of those that are added to zeros. Of
/// rounds that write the second is a captured one where an implementation captures; those that add
/// before them are captured too, on the same memory. Gives what was written.
Tensors expect_written_as_added(StackCase stack, RunOptions options) {
  SCOPED_TRACE(describe(stack));
  stack.want_gradients = true;
  options.rounds = options.adding_rounds + 2;
  options.tf32 = stack.descriptor.tf32;
  fill_gradients(stack, 0);
  const Tensors added = run(stack, options);
  fill_gradients(stack, std::numeric_limits<double>::quiet_NaN());
  stack.accumulate = false;
  const Tensors written = run(stack, options);
  EXPECT_TRUE(written.contains("weight_ih.0"));
  for (const auto& [name, values] : written) {
    // NaN differs from itself.
    EXPECT_TRUE(values == added.at(name)) << name;
  }
  return written;
}

/// By every implementation.
class WrittenGradients : public ::testing::TestWithParam<SubjectAndPrecision> {
 protected:
  const Subject& subject() const { return std::get<0>(GetParam()); }
  bool is_peer() const { return subject().candidate().peer; }

  void TearDown() override {
    if (const auto reason = cases_.all_declined()) GTEST_SKIP() << *reason;
  }

  /// A small one in training.
  StackCase draw_case(bool extras) {
    const runtime::Precision precision = precision_of(std::get<1>(GetParam()));
    StackCase stack;
    do {
      stack = random_case(random_, {precision.storage, 9, 7, 40, is_peer(), extras});
    } while (!stack.descriptor.training);
    stack.descriptor.tf32 = precision.tf32;
    return stack;
  }
  /// What was written, or nothing where the implementation can't run it.
  Tensors compare(const StackCase& stack) {
    if (!cases_.take(subject().implementation, subject().refusal(stack.descriptor))) return {};
    RunOptions options{subject().device, subject().implementation};
    options.adding_rounds = 2;
    return expect_written_as_added(stack, options);
  }

  sluice::testing::DeclinedCases cases_;
  const std::uint64_t seed_ = seed();
  std::mt19937_64 random_{seed_};
  const ::testing::ScopedTrace trace_{__FILE__, __LINE__,
                                      fmt::format("SLUICE_TEST_SEED={}", seed_)};
};

INSTANTIATE_TEST_SUITE_P(, WrittenGradients,
                         ::testing::Combine(::testing::ValuesIn(subjects()),
                                            ::testing::Values("float64", "float32", "tf32",
                                                              "bfloat16", "float16")),
                         parameter_name);

TEST_P(WrittenGradients, EqualAddedOnes) {
  // cuDNN compiles a kernel for every plan of that one.
  const int trials = subject().implementation == "cudnn-persist-dynamic" ? 2 : 12;
  for (int trial = 0; trial < trials; ++trial) compare(draw_case(trial % 3 == 0));
}

TEST_P(WrittenGradients, AreZeroWhereAllRowsAreEmpty) {
  if (is_peer()) GTEST_SKIP() << "peers are not tested here";
  for (int trial = 0; trial < 4; ++trial) {
    StackCase stack = draw_case(trial % 2 == 0);
    stack.input.lengths.assign(static_cast<std::size_t>(stack.rows), 0);
    const Tensors written = compare(stack);
    for (const auto& [name, values] : written) {
      if (!name.starts_with("weight_") && !name.starts_with("bias_")) continue;
      EXPECT_EQ(std::ranges::count(values, 0.0), std::ssize(values)) << name;
    }
  }
}

using DeviceAndPrecision = std::tuple<const char*, const char*>;

/// By the implementation that is chosen for layers of some size on a GPU.
class WrittenGradientsOfLargeLayers : public ::testing::TestWithParam<DeviceAndPrecision> {
 protected:
  const std::uint64_t seed_ = seed();
  std::mt19937_64 random_{seed_};
  const ::testing::ScopedTrace trace_{__FILE__, __LINE__,
                                      fmt::format("SLUICE_TEST_SEED={}", seed_)};
};

INSTANTIATE_TEST_SUITE_P(, WrittenGradientsOfLargeLayers,
                         ::testing::Combine(sluice::testing::devices(),
                                            ::testing::Values("float32", "tf32", "bfloat16",
                                                              "float16")),
                         [](const ::testing::TestParamInfo<DeviceAndPrecision>& parameter) {
                           return fmt::format("{}_{}", std::get<0>(parameter.param),
                                              std::get<1>(parameter.param));
                         });

// Most kinds of launches, with products overlapped with them, whole and by halves; layers
// overlapped with each other in pieces of time; a single step; products by parts and of scaled
// factors, whole and a product a gate.
TEST_P(WrittenGradientsOfLargeLayers, EqualAddedOnes) {
  const auto& [device, name] = GetParam();
  if (std::string_view(device) != "cuda") GTEST_SKIP() << "such layers take too long on a CPU";
  const runtime::Precision precision = precision_of(name);
  struct Extent {
    std::int64_t layers, directions, input, units, time, rows;
  };
  constexpr std::array kExtents{
      Extent{3, 1, 96, 96, 30, 24},  Extent{1, 2, 256, 512, 8, 64}, Extent{2, 1, 256, 512, 20, 32},
      Extent{1, 1, 64, 512, 4, 160}, Extent{1, 1, 64, 384, 4, 300}, Extent{2, 1, 64, 768, 4, 128},
      Extent{1, 1, 64, 1024, 3, 8},  Extent{2, 1, 64, 768, 3, 300}, Extent{1, 1, 64, 2048, 5, 64},
      Extent{2, 1, 256, 512, 1, 64}, Extent{1, 1, 64, 2560, 3, 32}};
  for (const CellType cell : {CellType::kLstm, CellType::kGru}) {
    for (const Extent& extent : kExtents) {
      StackCase stack;
      Descriptor& d = stack.descriptor;
      d.cell = cell;
      d.layers = extent.layers;
      d.directions = extent.directions;
      d.input = extent.input;
      d.hidden = extent.units;
      d.dtype = precision.storage;
      d.tf32 = precision.tf32;
      d.training = true;
      d.time = stack.time = extent.time;
      d.rows = stack.rows = extent.rows;
      fill_case(random_, stack);
      expect_written_as_added(stack, {device, "auto"});
    }
  }
}

}  // namespace
}  // namespace sluice::kernels::recurrent::testing
