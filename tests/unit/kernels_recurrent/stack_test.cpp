#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <random>
#include <tuple>

#include "base/dtype.h"
#include "sluice/error.h"
#include "unit/kernels_recurrent/stack_case.h"
#include "unit/kernels_recurrent/stack_comparison.h"
#include "unit/kernels_recurrent/subject.h"
#include "unit/support/declined_cases.h"
#include "unit/support/on_device.h"

namespace sluice::kernels::recurrent::testing {
namespace {

/// A tensor's values at one row, where `width` features follow the rows' axis.
std::vector<double> row_of(const std::vector<double>& all, std::int64_t rows, std::int64_t row,
                           std::int64_t width) {
  std::vector<double> picked;
  for (auto i = row * width; i < static_cast<std::int64_t>(all.size()); i += rows * width) {
    picked.insert(picked.end(), all.begin() + i, all.begin() + i + width);
  }
  return picked;
}

/// The last says whether cells have more than their equations.
using Parameter = std::tuple<Subject, DType, bool>;

std::string parameter_name(const ::testing::TestParamInfo<Parameter>& info) {
  const Subject& subject = std::get<0>(info.param);
  std::string name = fmt::format("{}{}_{}{}", subject.device == "cpu" ? "" : subject.device + "_",
                                 subject.implementation, base::name_of(std::get<1>(info.param)),
                                 std::get<2>(info.param) ? "_extras" : "");
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

/// Every implementation in every storage type, on fresh shapes. A test whose every case the
/// implementation declines is skipped.
class RecurrentStack : public ::testing::TestWithParam<Parameter> {
 protected:
  const Subject& subject() const { return std::get<0>(GetParam()); }
  /// A peer's arithmetic is not ours to vouch for, and cuDNN's PERSIST_STATIC errs by more than
  /// float32 does elsewhere (docs/performance/float32-and-tf32.md), by 2.7e-5 where one unit's
  /// gradients nearly cancel. cuDNN stores cell states of 16-bit types in 16 bits.
  Judging judging() const {
    if (!is_peer()) return {};
    const bool rough = dtype() == DType::kFloat32 && implementation() == "cudnn-persist-static";
    return {.factor = rough ? 16.0 : 8.0};
  }
  const std::string& implementation() const { return subject().implementation; }
  bool on_host() const { return subject().device == "cpu"; }
  DType dtype() const { return std::get<1>(GetParam()); }
  void SetUp() override {
    if (is_peer() && std::get<2>(GetParam())) GTEST_SKIP() << "peers have no cell extras";
  }
  void TearDown() override {
    if (const auto reason = cases_.all_declined()) GTEST_SKIP() << *reason;
  }
  bool can_run(const Descriptor& descriptor) {
    return cases_.take(implementation(), subject().refusal(descriptor));
  }
  RunOptions options() const { return {subject().device, implementation()}; }
  /// A peer is asked only for what any library's layer does.
  bool is_peer() const { return subject().candidate().peer; }
  CaseLimits limits(std::int64_t time = 9, std::int64_t rows = 7, std::int64_t width = 40) const {
    return {dtype(),
            time,
            rows,
            width,
            is_peer(),
            std::get<2>(GetParam()),
            subject().candidate().hard_sigmoid};
  }

  void compare(const StackCase& stack, const std::string& device) {
    if (!can_run(stack.descriptor)) return;
    SCOPED_TRACE(describe(stack) + " on " + device);
    expect_accurate(run(stack, {device, implementation()}), stack, judging());
  }
  void compare(const StackCase& stack) { compare(stack, subject().device); }

  sluice::testing::DeclinedCases cases_;
  const std::uint64_t seed_ = seed();
  std::mt19937_64 random_{seed_};
  const ::testing::ScopedTrace trace_{__FILE__, __LINE__,
                                      fmt::format("SLUICE_TEST_SEED={}", seed_)};
};

INSTANTIATE_TEST_SUITE_P(, RecurrentStack,
                         ::testing::Combine(::testing::ValuesIn(subjects()),
                                            ::testing::Values(DType::kFloat64, DType::kFloat32,
                                                              DType::kBFloat16, DType::kFloat16),
                                            ::testing::Bool()),
                         parameter_name);

TEST_P(RecurrentStack, EqualsOracle) {
  // cuDNN compiles a kernel for every plan of that one.
  const int trials = implementation() == "cudnn-persist-dynamic" ? 2 : 25;
  for (int trial = 0; trial < trials; ++trial) compare(random_case(random_, limits()));
}

TEST_P(RecurrentStack, EqualsOracleOnTestDevice) {
  if (!on_host()) GTEST_SKIP() << "the test device runs what the CPU does";
  for (int trial = 0; trial < 8; ++trial) compare(random_case(random_, limits()), "test");
}

// Enough rows that each thread gets rows of its own, and more than one chunk of steps.
TEST_P(RecurrentStack, EqualsOracleWithManyRows) {
  if (implementation() == "cudnn-persist-dynamic")
    GTEST_SKIP() << "cuDNN compiles a kernel for each of its plans, which takes too long";
  for (int trial = 0; trial < 3; ++trial) compare(random_case(random_, limits(6, 90, 35)));
}

// Of inner layers only some are as wide as masks of dropout may be that a GPU keeps as bits.
TEST_P(RecurrentStack, DropsOutBetweenLayersOfAnyWidths) {
  for (const auto& widths : {std::vector<std::int64_t>{128, 96, 128, 64}, {40, 24, 128, 20}}) {
    StackCase stack;
    Descriptor& d = stack.descriptor;
    d.layers = 4;
    d.input = 12;
    d.hidden = 150;
    d.projections = widths;
    d.dtype = dtype();
    d.time = stack.time = 3;
    d.rows = stack.rows = 5;
    d.training = true;
    d.dropout = 0.3;
    fill_case(random_, stack);
    compare(stack);
  }
}

// Few rows of many units: threads share panels and meet every step.
TEST_P(RecurrentStack, EqualsOracleWithWideRows) {
  if (implementation() == "cudnn-persist-dynamic")
    GTEST_SKIP() << "cuDNN compiles a kernel for each of its plans, which takes too long";
  for (int trial = 0; trial < 3; ++trial) compare(random_case(random_, limits(4, 5, 230)));
}

// Widths that TMA can read, of several tiles and partial ones, with the products of
// float32 in TF32, as they are in training.
TEST_P(RecurrentStack, EqualsOracleAtWidthsOfTensorCopies) {
  if (on_host() || is_peer() || dtype() == DType::kFloat64)
    GTEST_SKIP() << "this is a test of our GPU implementations in 16 and 32 bits";
  RunOptions rounded = options();
  rounded.tf32 = dtype() == DType::kFloat32;
  const auto element = static_cast<std::int64_t>(base::size_of(dtype()));
  for (int trial = 0; trial < 8; ++trial) {
    StackCase stack = random_case(random_, limits(6, trial < 4 ? 150 : 20, 24));
    stack.descriptor.projections.clear();
    stack.descriptor.hidden = (1 + static_cast<std::int64_t>(random_() % 25)) * (16 / element);
    StackCase wide;
    wide.descriptor = stack.descriptor;
    wide.time = stack.time;
    wide.rows = stack.rows;
    // Rounded factors bring sums to the other side of relu's kink.
    if (wide.descriptor.cell == CellType::kRnnRelu) wide.descriptor.training = false;
    fill_case(random_, wide);
    wide.descriptor.tf32 = rounded.tf32;
    if (!can_run(wide.descriptor)) continue;
    SCOPED_TRACE(describe(wide));
    const Tensors got = run(wide, rounded);
    expect_accurate(got, wide, judging());
    EXPECT_EQ(run(wide, rounded), got);
  }
}

// What a run leaves in workspace and reserve must not reach the next, of another extent.
TEST_P(RecurrentStack, OnePlanServesRunsOfAnyExtent) {
  if (is_peer()) GTEST_SKIP() << "peers are not tested here";
  for (int trial = 0; trial < 4; ++trial) {
    std::vector<StackCase> stacks{random_case(random_, limits())};
    if (!can_run(stacks.front().descriptor)) continue;
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
      SCOPED_TRACE(describe(stacks[i]));
      expect_accurate(results[i], stacks[i], judging());
    }
  }
}

// A graph that was captured for one step of training serves the next.
TEST_P(RecurrentStack, SameMemoryServesAnotherDropoutKey) {
  if (is_peer()) GTEST_SKIP() << "peers are not tested here";
  for (int trial = 0; trial < 5; ++trial) {
    const StackCase stack = random_case(random_, limits());
    if (!can_run(stack.descriptor)) continue;
    SCOPED_TRACE(describe(stack));
    RunOptions twice = options();
    twice.rounds = 3;
    expect_accurate(run(stack, twice), stack, judging());
  }
}

TEST_P(RecurrentStack, EqualsOracleOverManySteps) {
  if (is_peer()) GTEST_SKIP() << "peers are not tested here";
  for (int trial = 0; trial < 3; ++trial) {
    StackCase stack = random_case(random_, limits(9, 3, 20));
    StackCase longer;
    longer.descriptor = stack.descriptor;
    longer.rows = stack.rows;
    longer.time = longer.descriptor.time = 150;
    longer.descriptor.layers = 1;
    if (longer.descriptor.projects()) longer.descriptor.projections.resize(1);
    longer.descriptor.training = false;
    fill_case(random_, longer);
    compare(longer);
  }
}

TEST_P(RecurrentStack, AcceptsRowsThatAreAllEmpty) {
  if (is_peer()) GTEST_SKIP() << "peers are not tested here";
  for (int trial = 0; trial < 4; ++trial) {
    StackCase stack = random_case(random_, limits());
    stack.input.lengths.assign(static_cast<std::size_t>(stack.rows), 0);
    compare(stack);
  }
}

// A row's outputs and input gradients must not depend on its batch: to the bit on the portable
// path. Elsewhere the instruction set may pick another kernel for a single row, which may group
// sums differently: both lie within the bounds of the row alone.
TEST_P(RecurrentStack, BatchedEqualsSingle) {
  if (is_peer()) GTEST_SKIP() << "peers are not tested here";
  for (int trial = 0; trial < 12; ++trial) {
    StackCase stack = random_case(random_, limits());
    if (!can_run(stack.descriptor)) continue;
    SCOPED_TRACE(describe(stack));
    stack.want_gradients = false;
    const Tensors batch = run(stack, options());
    const std::int64_t row = static_cast<std::int64_t>(random_() % stack.rows);
    const Descriptor& d = stack.descriptor;
    const std::map<std::string, std::int64_t> widths{{"y", d.y_width()},
                                                     {"cn", d.hidden},
                                                     {"c_sequence", d.hidden},
                                                     {"dx", d.input},
                                                     {"dc0", d.hidden}};
    const StackCase alone = single_row(stack, row);
    const Tensors single = run(alone, options());
    Tensors of_batch;
    for (const auto& [name, values] : single) {
      of_batch[name] = name == "hn" || name == "dh0"
                           ? state_of_row(d, batch.at(name), stack.rows, row)
                           : row_of(batch.at(name), stack.rows, row, widths.at(name));
    }
    if (implementation() == "portable") {
      EXPECT_EQ(single, of_batch);
    } else {
      const auto answers = answers_of(alone, d.tf32, plain_count(alone));
      expect_accurate(single, answers);
      expect_accurate(of_batch, answers);
    }
  }
}

TEST_P(RecurrentStack, HasTheSameBitsForAnyNumberOfThreads) {
  if (is_peer() || !on_host()) GTEST_SKIP() << "this is a test of our CPU implementations";
  const int threads = omp_get_max_threads();
  for (int trial = 0; trial < 4; ++trial) {
    const StackCase stack =
        random_case(random_, trial % 2 == 0 ? limits(6, 40, 80) : limits(4, 5, 230));
    if (!can_run(stack.descriptor)) continue;
    SCOPED_TRACE(describe(stack));
    omp_set_num_threads(1);
    const Tensors one = run(stack, options());
    for (const int count : {2, 3}) {
      omp_set_num_threads(count);
      EXPECT_EQ(run(stack, options()), one) << count;
    }
    omp_set_num_threads(threads);
  }
}

TEST_P(RecurrentStack, RepeatsToTheBit) {
  const StackCase stack = random_case(random_, limits());
  if (!can_run(stack.descriptor)) return;
  EXPECT_EQ(run(stack, options()), run(stack, options()));
}

}  // namespace
}  // namespace sluice::kernels::recurrent::testing
