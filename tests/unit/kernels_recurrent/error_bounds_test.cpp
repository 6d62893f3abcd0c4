#include "unit/kernels_recurrent/error_bounds.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <tuple>

#include "base/dtype.h"
#include "runtime/context.h"
#include "unit/kernels_recurrent/stack_case.h"
#include "unit/kernels_recurrent/stack_comparison.h"

namespace sluice::kernels::recurrent::testing {
namespace {

using Vector = std::vector<double>;
using Answers = std::map<std::string, Answer>;
using Parameter = std::tuple<const char*, CellType>;

std::string parameter_name(const ::testing::TestParamInfo<Parameter>& info) {
  return fmt::format("{}_{}", std::get<0>(info.param), name_of(std::get<1>(info.param)));
}

/// The bounds themselves: what a plain implementation computes passes, and every planted fault
/// fails, in every format.
class ErrorBounds : public ::testing::TestWithParam<Parameter> {
 protected:
  void SetUp() override {
    const auto precision = runtime::Precision::parse(std::get<0>(GetParam()));
    Descriptor& d = stack_.descriptor;
    d.cell = std::get<1>(GetParam());
    d.layers = d.directions = 2;
    d.input = 20;
    d.hidden = 24;
    d.dtype = precision.storage;
    d.tf32 = precision.tf32;
    d.int8 = precision.int8;
    d.training = !d.int8;
    d.dropout = 0.2;
    d.time = stack_.time = 12;
    d.rows = stack_.rows = 8;
    do {
      StackCase fresh = stack_;
      fill_case(random_, fresh);
      if (fresh.flow.dy.empty()) continue;
      filled_ = fresh;
    } while (filled_.flow.dy.empty());
    filled_.want_states = filled_.want_dx = filled_.want_gradients = true;
    if (filled_.gradients_before.empty()) filled_.gradients_before = filled_.weights;
    filled_.input.lengths = {12, 12, 7, 12, 0, 12, 1, 12};
    answers_ = answers_of(filled_, d.tf32, plain_count(filled_));
    many_answers_ = answers_of(filled_, d.tf32, kManyPlain);
    // None of the draws that the bounds are made of.
    oracle::Rounding rounding(format(precision), 1001);
    sound_ = expected(filled_, &rounding);
  }

  static oracle::Format format(const runtime::Precision& precision) {
    if (precision.storage == DType::kBFloat16) return oracle::Format::kBFloat16;
    if (precision.storage == DType::kFloat16) return oracle::Format::kFloat16;
    return precision.tf32 ? oracle::Format::kTf32 : oracle::Format::kFloat32;
  }

  static Ratios judged(const Tensors& got, const Answers& answers) {
    Ratios all;
    for (const auto& [name, answer] : answers) all.merge(judge(got.at(name), answer), name);
    return all;
  }
  /// By the wider bounds, as a test that fails has been held to both.
  double ratio_of(const Tensors& got) const {
    return std::min(judged(got, answers_).largest(), judged(got, many_answers_).largest());
  }
  const std::vector<Part>& parts(const std::string& name) const { return answers_.at(name).parts; }

  /// Every tensor that isn't zero throughout.
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& [name, answer] : answers_) {
      if (std::ranges::any_of(answer.exact, [](double x) { return x != 0; })) all.push_back(name);
    }
    return all;
  }

  std::mt19937_64 random_{20261121};
  StackCase stack_, filled_;
  Answers answers_, many_answers_;
  Tensors sound_;
};

INSTANTIATE_TEST_SUITE_P(
    , ErrorBounds,
    ::testing::Combine(::testing::Values("float32", "tf32", "bfloat16", "float16", "int8"),
                       ::testing::Values(CellType::kLstm, CellType::kGru, CellType::kGruResetBefore,
                                         CellType::kRnnTanh)),
    parameter_name);

// Forty further draws: the bounds have room for each.
TEST_P(ErrorBounds, TakeWhatPlainImplementationsCompute) {
  const auto precision = runtime::Precision::parse(std::get<0>(GetParam()));
  for (std::uint64_t draw = 1001; draw <= 1040; ++draw) {
    oracle::Rounding rounding(format(precision), draw);
    const Ratios ratios = judged(expected(filled_, &rounding), answers_);
    for (std::size_t i = 0; i < kCheckNames.size(); ++i) {
      EXPECT_LE(ratios.worst[i], 0.8) << kCheckNames[i] << " of " << ratios.where[i];
    }
  }
}

// Of each tensor: an element of at least median size with the other sign.
TEST_P(ErrorBounds, RefuseOneWrongElement) {
  for (const std::string& name : names()) {
    const Answer& answer = answers_.at(name);
    Vector signal = answer.exact;
    for (std::size_t i = 0; i < answer.before.size(); ++i) signal[i] -= answer.before[i];
    Vector sizes;
    for (const double x : signal) {
      if (x != 0) sizes.push_back(std::abs(x));
    }
    std::ranges::nth_element(sizes, sizes.begin() + std::ssize(sizes) / 2);
    const double median = sizes[sizes.size() / 2];
    for (int trial = 0; trial < 20; ++trial) {
      std::size_t i = 0;
      do {
        i = random_() % signal.size();
      } while (std::abs(signal[i]) < median);
      Tensors wrong = sound_;
      wrong.at(name)[i] -= 2 * signal[i];
      EXPECT_GT(ratio_of(wrong), 1) << name << "[" << i << "]";
    }
  }
}

// Of each tensor: a row that has the numbers of another one.
TEST_P(ErrorBounds, RefuseOneWrongRow) {
  for (const std::string& name : names()) {
    for (const Part& part : parts(name)) {
      if (part.rows < 2) continue;
      Tensors wrong = sound_;
      for (std::int64_t step = 0; step < part.steps; ++step) {
        const auto line = wrong.at(name).begin() + part.first + step * part.rows * part.width;
        std::copy_n(line + part.width, part.width, line);
      }
      EXPECT_GT(ratio_of(wrong), 1) << name << " " << part.name;
    }
  }
}

// Each row's last step is the one before it.
TEST_P(ErrorBounds, RefuseAWrongLastStep) {
  for (const char* name : {"y", "dx"}) {
    if (!answers_.contains(name)) continue;
    const Part& part = parts(name).front();
    for (std::int64_t row = 0; row < part.rows; ++row) {
      const int length = filled_.input.lengths[static_cast<std::size_t>(row)];
      if (length < 2) continue;
      Tensors wrong = sound_;
      const auto at = [&](std::int64_t step) {
        return wrong.at(name).begin() + (step * part.rows + row) * part.width;
      };
      std::copy_n(at(length - 2), part.width, at(length - 1));
      EXPECT_GT(ratio_of(wrong), 1) << name << " row " << row;
    }
  }
}

// What lies past a row's end is zero and nothing else.
TEST_P(ErrorBounds, RefuseNumbersPastTheEnd) {
  const Part& part = parts("y").front();
  Tensors wrong = sound_;
  wrong.at("y")[static_cast<std::size_t>((part.steps - 1) * part.rows + 2) *
                static_cast<std::size_t>(part.width)] = 1e-30;
  EXPECT_GT(ratio_of(wrong), 1);
  wrong = sound_;
  wrong.at("y")[0] = std::nan("");
  EXPECT_GT(ratio_of(wrong), 1);
}

// A gate whose gradient is one in a hundred too large, in all that is made of it.
TEST_P(ErrorBounds, RefuseAGradientOfOneGateScaled) {
  if (!filled_.descriptor.training) GTEST_SKIP() << "int8 has no gradients";
  const Descriptor& d = filled_.descriptor;
  for (std::int64_t k = 0; k < d.layers * d.directions; ++k) {
    for (std::int64_t gate = 0; gate < d.gates(); ++gate) {
      Tensors wrong = sound_;
      for (const char* base : {"weight_ih", "weight_hh", "bias_ih", "bias_hh"}) {
        const std::string name = fmt::format("{}.{}", base, k);
        const Part& part = parts(name)[static_cast<std::size_t>(gate)];
        for (std::int64_t i = part.first; i < part.first + part.size(); ++i) {
          const auto at = static_cast<std::size_t>(i);
          wrong.at(name)[at] += 0.01 * (sound_.at(name)[at] - answers_.at(name).before[at]);
        }
      }
      EXPECT_GT(ratio_of(wrong), 1) << "layer and direction " << k << " gate " << gate;
    }
  }
}

TEST_P(ErrorBounds, RefuseSwappedDirections) {
  Tensors wrong = sound_;
  const std::int64_t width = filled_.descriptor.hidden;
  Vector& y = wrong.at("y");
  for (auto line = y.begin(); line != y.end(); line += 2 * width) {
    std::swap_ranges(line, line + width, line + width);
  }
  EXPECT_GT(ratio_of(wrong), 1) << "y";
  wrong = sound_;
  Vector& hn = wrong.at("hn");
  const auto size = std::ssize(hn) / 4;
  std::swap_ranges(hn.begin(), hn.begin() + size, hn.begin() + size);
  EXPECT_GT(ratio_of(wrong), 1) << "hn";
  if (!filled_.descriptor.training) return;
  wrong = sound_;
  std::swap(wrong.at("weight_ih.0"), wrong.at("weight_ih.1"));
  EXPECT_GT(ratio_of(wrong), 1) << "weight_ih";
}

// A tensor of small numbers that is wholly wrong.
TEST_P(ErrorBounds, RefuseATensorOfZeros) {
  for (const std::string& name : names()) {
    Tensors wrong = sound_;
    wrong.at(name) =
        answers_.at(name).before.empty() ? Vector(wrong.at(name).size()) : answers_.at(name).before;
    EXPECT_GT(ratio_of(wrong), 1) << name;
  }
}

}  // namespace
}  // namespace sluice::kernels::recurrent::testing
