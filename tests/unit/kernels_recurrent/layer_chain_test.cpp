#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/dtype.h"
#include "sluice/error.h"
#include "unit/kernels_recurrent/stack_case.h"
#include "unit/kernels_recurrent/stack_comparison.h"
#include "unit/support/declined_cases.h"
#include "unit/support/message_of.h"
#include "unit/support/on_device.h"

namespace sluice::kernels::recurrent::testing {
namespace {

using sluice::testing::message_of;
using Parameter = std::tuple<std::string, DType>;

std::vector<Parameter> parameters() {
  std::vector<Parameter> all;
  for (const std::string device : sluice::testing::device_names()) {
    if (device == "cpu") all.emplace_back(device, DType::kFloat64);
    all.emplace_back(device, DType::kFloat32);
    all.emplace_back(device, DType::kBFloat16);
    if (device == "cuda") all.emplace_back(device, DType::kFloat16);
  }
  return all;
}

std::string parameter_name(const ::testing::TestParamInfo<Parameter>& info) {
  return fmt::format("{}_{}", std::get<0>(info.param), base::name_of(std::get<1>(info.param)));
}

/// Stacks whose layers have widths of their own.
class LayerChain : public ::testing::TestWithParam<Parameter> {
 protected:
  const std::string& device() const { return std::get<0>(GetParam()); }
  DType dtype() const { return std::get<1>(GetParam()); }
  /// The test device opens and closes all memory for each kernel.
  int trials(int most) const { return device() == "test" ? (most + 3) / 4 : most; }

  CaseLimits limits(bool extras = false) const {
    CaseLimits limits;
    limits.dtype = dtype();
    limits.time = 7;
    limits.rows = 6;
    limits.width = 28;
    limits.extras = limits.hard_sigmoid = extras;
    limits.unequal_widths = true;
    return limits;
  }
  RunOptions options() const { return {.device = device(), .poison_workspace = true}; }

  void compare(const StackCase& stack) {
    SCOPED_TRACE(describe(stack));
    expect_accurate(run(stack, options()), stack);
  }

  /// A case in training that has all tensors. Two of its layers are alike and make one part.
  StackCase full_case(CellType cell, std::int64_t directions) {
    StackCase stack;
    Descriptor& d = stack.descriptor;
    d.cell = cell;
    d.widths = {12, 16, 16, 9};
    d.layers = 4;
    d.directions = directions;
    d.input = 10;
    d.dtype = dtype();
    d.training = true;
    d.dropout = 0.3;
    d.time = 6;
    d.rows = 6;
    stack.time = 5;
    stack.rows = 5;
    const bool lstm = cell == CellType::kLstm;
    StackCase filled;
    do {
      filled = stack;
      fill_case(random_, filled);
    } while (filled.flow.dy.empty() || filled.flow.dhn.empty() || filled.input.h0.empty() ||
             filled.input.lengths.empty() || (lstm && filled.flow.dcn.empty()) ||
             (lstm && filled.input.c0.empty()));
    filled.input.lengths = {5, 0, 3, 5, 1};
    filled.want_states = filled.want_dx = filled.want_gradients = true;
    filled.want_c_sequence = lstm;
    return filled;
  }

  std::uint64_t seed_ = seed();
  std::mt19937_64 random_{seed_};
  const ::testing::ScopedTrace trace_{__FILE__, __LINE__,
                                      fmt::format("SLUICE_TEST_SEED={}", seed_)};
};

INSTANTIATE_TEST_SUITE_P(Devices, LayerChain, ::testing::ValuesIn(parameters()), parameter_name);

TEST_P(LayerChain, EqualsOracle) {
  for (int trial = 0; trial < trials(10); ++trial) compare(random_case(random_, limits()));
}

TEST_P(LayerChain, EqualsOracleWithExtras) {
  for (int trial = 0; trial < trials(8); ++trial) compare(random_case(random_, limits(true)));
}

// Every cell in training, with all tensors that there are.
TEST_P(LayerChain, EqualsOracleWithAllTensors) {
  for (const CellType cell :
       {CellType::kLstm, CellType::kGru, CellType::kGruResetBefore, CellType::kRnnTanh}) {
    for (const std::int64_t directions : {1, 2}) {
      if (device() == "test" && directions == 1) continue;
      compare(full_case(cell, directions));
    }
  }
}

// Nothing that a run leaves in memory may reach the next run, which has another extent.
TEST_P(LayerChain, OnePlanServesRunsOfAnyExtent) {
  for (int trial = 0; trial < trials(2); ++trial) {
    std::vector<StackCase> stacks{random_case(random_, limits(trial % 2 == 1))};
    for (int i = 0; i < 3; ++i) {
      StackCase next;
      next.descriptor = stacks.front().descriptor;
      next.time = 1 + static_cast<std::int64_t>(random_() % next.descriptor.time);
      next.rows = 1 + static_cast<std::int64_t>(random_() % next.descriptor.rows);
      fill_case(random_, next);
      next.weights = stacks.front().weights;
      stacks.push_back(next);
    }
    const std::vector<Tensors> results = run_all(stacks, options());
    for (std::size_t i = 0; i < stacks.size(); ++i) {
      // Other weights may bring sums close to relu's kink.
      const Descriptor& d = stacks[i].descriptor;
      if (i > 0 && d.training && d.cell == CellType::kRnnRelu) continue;
      SCOPED_TRACE(describe(stacks[i]));
      expect_accurate(results[i], stacks[i]);
    }
  }
}

TEST_P(LayerChain, SameMemoryServesAnotherDropoutKey) {
  for (int trial = 0; trial < trials(2); ++trial) {
    const StackCase stack = random_case(random_, limits());
    SCOPED_TRACE(describe(stack));
    RunOptions twice = options();
    twice.rounds = 3;
    expect_accurate(run(stack, twice), stack);
  }
}

TEST_P(LayerChain, RepeatsToTheBit) {
  const StackCase stack = full_case(CellType::kLstm, 2);
  EXPECT_EQ(run(stack, options()), run(stack, options()));
}

TEST_P(LayerChain, EqualWidthsHaveTheBitsOfOneWidth) {
  CaseLimits equal = limits();
  equal.unequal_widths = false;
  for (int trial = 0; trial < trials(6); ++trial) {
    StackCase stack = random_case(random_, equal);
    SCOPED_TRACE(describe(stack));
    const Tensors want = run(stack, options());
    Descriptor& d = stack.descriptor;
    d.widths.assign(static_cast<std::size_t>(d.layers), d.hidden);
    d.hidden = 0;
    EXPECT_EQ(run(stack, options()), want);
  }
}

TEST_P(LayerChain, NamesItsParts) {
  const auto opened = runtime::open_device(device());
  const Context context(*opened);
  const Descriptor d = full_case(CellType::kGru, 2).descriptor;
  const Choice choice = make_plan(context, d);
  const std::string name(choice.plan->implementation());
  EXPECT_EQ(std::ranges::count(name, '+'), 2) << name;
  for (const Declined& declined : choice.declined) {
    EXPECT_NE(declined.reason.find(" (layers "), std::string::npos) << declined.reason;
  }
}

// Every implementation that accepts each part of the chain.
TEST_P(LayerChain, TakesAnImplementationByName) {
  const auto opened = runtime::open_device(device());
  const Context context(*opened);
  sluice::testing::DeclinedCases cases;
  const StackCase stack = full_case(CellType::kLstm, 1);
  for (const Candidate& candidate : candidates(*opened)) {
    if (candidate.peer) continue;
    std::string name;
    const std::string reason = message_of([&] {
      name = make_plan(context, stack.descriptor, candidate.name).plan->implementation();
    });
    if (!cases.take(candidate.name, reason.empty() ? std::nullopt : std::optional(reason)))
      continue;
    EXPECT_EQ(name, fmt::format("{0}+{0}+{0}", candidate.name));
    SCOPED_TRACE(describe(stack) + " by " + name);
    RunOptions named = options();
    named.implementation = candidate.name;
    expect_accurate(run(stack, named), stack);
  }
  EXPECT_FALSE(cases.all_declined()) << *cases.all_declined();
}

// The comparison would find the mistakes that a chain can make.
TEST_P(LayerChain, PlantedFaultsAreFound) {
  const StackCase stack = full_case(CellType::kLstm, 2);
  const Tensors sound = run(stack, options());
  const auto answers = answers_of(stack, false, kManyPlain);
  const auto ratio_of = [&](const Tensors& got) {
    Ratios all;
    for (const auto& [name, answer] : answers) all.merge(judge(got.at(name), answer), name);
    return all.largest();
  };
  EXPECT_LE(ratio_of(sound), 1);

  StackCase wrong = stack;
  wrong.dropout.stream += 1;
  EXPECT_GT(ratio_of(run(wrong, options())), 1) << "a mask of the layer above";
  wrong = stack;
  wrong.descriptor.dropout = 0;
  wrong.input.dropout.clear();
  EXPECT_GT(ratio_of(run(wrong, options())), 1) << "no dropout";
  wrong = stack;
  wrong.input.h0.clear();
  EXPECT_GT(ratio_of(run(wrong, options())), 1) << "no h0";
  wrong = stack;
  wrong.flow.dcn.clear();
  EXPECT_GT(ratio_of(run(wrong, options())), 1) << "no dcn";

  // States of the layer's other direction.
  const Descriptor& d = stack.descriptor;
  for (const char* name : {"hn", "cn", "dh0", "dc0"}) {
    for (std::int64_t layer = 0; layer < d.layers; ++layer) {
      Tensors swapped = sound;
      const auto begin = swapped.at(name).begin() + d.c_offset(2 * layer, stack.rows);
      const std::int64_t size = stack.rows * d.hidden_of(layer);
      std::swap_ranges(begin, begin + size, begin + size);
      EXPECT_GT(judge(swapped.at(name), answers.at(name)).largest(), 1)
          << name << " of layer " << layer;
    }
  }
}

TEST_P(LayerChain, RefusesWrongWidthsAndTensors) {
  const auto opened = runtime::open_device(device());
  const Context context(*opened);
  Descriptor d = full_case(CellType::kLstm, 1).descriptor;
  const auto plan = make_plan(context, d).plan;
  const runtime::Buffer packed(*opened, plan->packed_bytes());
  const runtime::Buffer workspace(*opened, plan->workspace_bytes());
  const runtime::Buffer reserve(*opened, plan->reserve_bytes());
  const runtime::Buffer data(*opened, 1 << 16);
  const Memory memory{packed.data(), workspace.data(), reserve.data()};
  ForwardArgs args;
  args.time = 2;
  args.rows = 3;
  args.x = data.tensor(d.dtype, {2, 3, 10});
  args.y = data.tensor(d.dtype, {2, 3, 9});
  const auto error = [&](const auto& change) {
    ForwardArgs changed = args;
    change(changed);
    return message_of([&] { plan->forward(context, changed, memory); });
  };
  EXPECT_NE(error([&](ForwardArgs& a) {
              a.y = data.tensor(d.dtype, {2, 3, 12});
            }).find("y of the recurrent stack has shape [2, 3, 12], not [2, 3, 9]"),
            std::string::npos);
  EXPECT_NE(error([&](ForwardArgs& a) {
              a.h0 = data.tensor(d.dtype, {4, 3, 12});
            }).find("h0 of the recurrent stack has shape [4, 3, 12], not [159]"),
            std::string::npos);
  EXPECT_NE(error([](ForwardArgs& a) { a.time = 9; }).find("9 time steps"), std::string::npos);
  EXPECT_NE(message_of([&] { plan->pack(context, {}, memory); }).find("0 sets of weights"),
            std::string::npos);
  EXPECT_NE(message_of([&] { plan->forward(context, args, {}); }).find("bytes"), std::string::npos);
  d.widths.pop_back();
  EXPECT_NE(message_of([&] { make_plan(context, d); }).find("3 hidden widths given for 4 layers"),
            std::string::npos);
  d.widths.push_back(0);
  EXPECT_NE(message_of([&] { make_plan(context, d); }).find("hidden widths of at least 1, not 0"),
            std::string::npos);
  d.widths.back() = 9;
  EXPECT_NE(message_of([&] { make_plan(context, d, "nonesuch"); }).find("nonesuch"),
            std::string::npos);
}

}  // namespace
}  // namespace sluice::kernels::recurrent::testing
