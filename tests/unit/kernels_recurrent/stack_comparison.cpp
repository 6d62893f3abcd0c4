#include "unit/kernels_recurrent/stack_comparison.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <random>

#include "base/dtype.h"

namespace sluice::kernels::recurrent::testing {

double relative_error(const std::vector<double>& got, const std::vector<double>& want) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    difference += (got[i] - want[i]) * (got[i] - want[i]);
    size += want[i] * want[i];
  }
  constexpr double kLeast = 0.1;
  size = std::max(size, kLeast * kLeast * static_cast<double>(want.size()));
  return difference == 0 ? 0 : std::sqrt(difference / size);
}

/// float64: a few hundred roundings of 1e-16 in the longest chain of these shapes. float32: sums of
/// up to 80 terms err by some sqrt(80) * 2^-25, and nine steps of a recurrence and as many backward
/// add their errors: some 2e-6. bfloat16: h, the gate gradients and the gradients between layers
/// are rounded by up to 2^-9 each, independently, so over nine steps and three layers, forward and
/// backward, they add up to sqrt(54) * 2^-10 = 7e-3; float16: the same with 2^-12. All times five
/// for tensors of a few elements that nearly cancel.
double tolerance_of(DType dtype) {
  if (dtype == DType::kFloat64) return 1e-12;
  if (dtype == DType::kFloat16) return 5e-3;
  return dtype == DType::kFloat32 ? 1e-5 : 3.5e-2;
}

/// TF32 cuts factors off after 2^-10, by half of that in the mean and always towards zero: three
/// times what float16's rounding of as many places errs by.
double tolerance_of(const runtime::Precision& precision) {
  return precision.tf32 ? 3 * tolerance_of(DType::kFloat16) : tolerance_of(precision.storage);
}

std::uint64_t seed() {
  const char* chosen = std::getenv("SLUICE_TEST_SEED");
  return chosen ? std::strtoull(chosen, nullptr, 10) : std::random_device()();
}

std::string describe(const StackCase& stack) {
  const Descriptor& d = stack.descriptor;
  std::string text = fmt::format(
      "{} L{} D{} I{} H{} P{} T{}/{} B{}/{} {} dropout {} training {} lengths", name_of(d.cell),
      d.layers, d.directions, d.input,
      d.widths.empty() ? fmt::format("{}", d.hidden) : fmt::format("{}", fmt::join(d.widths, ",")),
      fmt::join(d.projections, ","), stack.time, d.time, stack.rows, d.rows, base::name_of(d.dtype),
      d.dropout, d.training);
  if (d.resets) text += " resets";
  for (const int reset : stack.input.resets) text += fmt::format(" {}", reset);
  if (d.peepholes) text += " peepholes";
  if (d.hard_sigmoid) text += " hard sigmoid";
  if (d.layer_norm) text += " layer norm";
  text += fmt::format(" zoneout {} {} recurrent dropout {}", d.zoneout_h, d.zoneout_c,
                      d.recurrent_dropout);
  for (const int length : stack.input.lengths) text += fmt::format(" {}", length);
  return text;
}

namespace {

/// What a case's tensors are of.
class Parts {
 public:
  explicit Parts(const StackCase& stack) : stack_(stack), d_(stack.descriptor) {}

  std::vector<Part> of(const std::string& name) const {
    const std::string base = name.substr(0, name.find('.'));
    if (base == "y") return directions(d_.y_width());
    if (base == "dx") return {{"", 0, stack_.time, stack_.rows, d_.input}};
    if (base == "c_sequence") return states(stack_.time, false);
    if (base == "hn" || base == "dh0") return states(1, true);
    if (base == "cn" || base == "dc0") return states(1, false);
    const std::int64_t layer = std::stoll(name.substr(base.size() + 1)) / d_.directions;
    const std::int64_t hidden = d_.hidden_of(layer);
    if (base == "weight_ih") return gates(d_.gates(), hidden, d_.input_of(layer));
    if (base == "weight_hh") return gates(d_.gates(), hidden, d_.output_of(layer));
    if (base == "weight_hr") return gates(1, d_.output_of(layer), hidden);
    if (base == "weight_peephole") return gates(3, 1, hidden);
    return gates(base == "gain_c" || base == "shift_c" ? 1 : d_.gates(), 1, hidden);
  }
  /// Whether it is kept in float32 whatever the format.
  static bool is_wide(const std::string& name) {
    return name != "y" && name != "dx" && name != "hn" && name != "dh0";
  }

 private:
  std::vector<Part> directions(std::int64_t width) const {
    return {{"", 0, stack_.time, stack_.rows, width}};
  }
  std::vector<Part> states(std::int64_t steps, bool outputs) const {
    std::vector<Part> all;
    std::int64_t first = 0;
    for (std::int64_t k = 0; k < d_.layers * d_.directions; ++k) {
      const std::int64_t layer = k / d_.directions;
      const std::int64_t width = outputs ? d_.output_of(layer) : d_.hidden_of(layer);
      all.push_back({fmt::format("layer {} direction {}, ", k / d_.directions, k % d_.directions),
                     first, steps, stack_.rows, width});
      first += all.back().size();
    }
    return all;
  }
  static std::vector<Part> gates(std::int64_t count, std::int64_t rows, std::int64_t width) {
    std::vector<Part> all;
    for (std::int64_t gate = 0; gate < count; ++gate) {
      all.push_back({fmt::format("gate {}, ", gate), gate * rows * width, 1, rows, width});
    }
    return all;
  }

  const StackCase& stack_;
  const Descriptor& d_;
};

oracle::Format format_of(DType dtype, bool tf32) {
  if (dtype == DType::kBFloat16) return oracle::Format::kBFloat16;
  if (dtype == DType::kFloat16) return oracle::Format::kFloat16;
  return tf32 ? oracle::Format::kTf32 : oracle::Format::kFloat32;
}

/// Half of the distance of numbers from 1 on.
double unit_of(DType dtype) {
  if (dtype == DType::kFloat64) return 0x1p-53;
  if (dtype == DType::kBFloat16) return 0x1p-8;
  return dtype == DType::kFloat16 ? 0x1p-11 : 0x1p-24;
}

/// Of factors with eleven bits.
constexpr double kTf32Unit = 0x1p-11;

/// What gradients are added to.
std::vector<double> before_of(const StackCase& stack, const std::string& name) {
  const std::size_t dot = name.find('.');
  if (dot == std::string::npos || stack.gradients_before.empty()) return {};
  const oracle::Weights& w = stack.gradients_before[std::stoul(name.substr(dot + 1))];
  const std::map<std::string, const std::vector<double>*> all{
      {"weight_ih", &w.weight_ih}, {"weight_hh", &w.weight_hh}, {"bias_ih", &w.bias_ih},
      {"bias_hh", &w.bias_hh},     {"weight_hr", &w.weight_hr}, {"weight_peephole", &w.peephole},
      {"gain_ih", &w.gain_ih},     {"gain_hh", &w.gain_hh},     {"gain_c", &w.gain_c},
      {"shift_c", &w.shift_c}};
  return *all.at(name.substr(0, dot));
}

}  // namespace

// Of large cases, whose errors are those of many numbers, fewer.
int plain_count(const StackCase& stack) {
  constexpr double kLarge = 3e7;
  const Descriptor& d = stack.descriptor;
  double products = 0;
  for (std::int64_t layer = 0; layer < d.layers; ++layer) {
    const std::int64_t sums = d.directions * d.gates() * d.hidden_of(layer);
    products += static_cast<double>(stack.time * stack.rows * sums) *
                static_cast<double>(d.input_of(layer) + d.output_of(layer));
  }
  return products > kLarge ? 2 : 5;
}

std::map<std::string, Answer> answers_of(const StackCase& stack, bool tf32, int plain_count) {
  const DType dtype = stack.descriptor.dtype;
  std::map<std::string, Answer> answers;
  const Parts parts(stack);
  for (auto& [name, values] : expected(stack)) {
    Answer& answer = answers[name];
    answer.exact = values;
    answer.before = before_of(stack, name);
    answer.parts = parts.of(name);
    answer.unit =
        unit_of(base::size_of(dtype) == 2 && Parts::is_wide(name) ? DType::kFloat32 : dtype);
    answer.format_unit = tf32 && dtype == DType::kFloat32 ? kTf32Unit : unit_of(dtype);
    if (dtype == DType::kFloat64) answer.scale = 0x1p-29;
  }
  for (int draw = 0; draw < plain_count; ++draw) {
    oracle::Rounding rounding(format_of(dtype, tf32), static_cast<std::uint64_t>(draw));
    for (auto& [name, values] : expected(stack, &rounding)) {
      answers.at(name).plain.push_back(values);
    }
  }
  return answers;
}

namespace {

/// The ratios of all comparisons of a test, which the listener of --ratios reads.
void record(const Ratios& ratios) {
  const ::testing::TestInfo* test = ::testing::UnitTest::GetInstance()->current_test_info();
  if (test == nullptr) return;
  for (std::size_t i = 0; i < kCheckNames.size(); ++i) {
    const std::string key = std::string("largest_") + kCheckNames[i];
    double largest = ratios.worst[i];
    const ::testing::TestResult& result = *test->result();
    for (int k = 0; k < result.test_property_count(); ++k) {
      const ::testing::TestProperty& property = result.GetTestProperty(k);
      if (property.key() == key)
        largest = std::max(largest, std::strtod(property.value(), nullptr));
    }
    ::testing::Test::RecordProperty(key, fmt::format("{:.3f}", largest));
  }
}

}  // namespace

void expect_accurate(const Tensors& got, const std::map<std::string, Answer>& answers,
                     double factor) {
  Ratios all;
  for (const auto& [name, answer] : answers) {
    ASSERT_TRUE(got.contains(name)) << name;
    ASSERT_EQ(got.at(name).size(), answer.exact.size()) << name;
    all.merge(judge(got.at(name), answer), name);
  }
  EXPECT_EQ(got.size(), answers.size());
  for (std::size_t i = 0; i < kCheckNames.size(); ++i) {
    EXPECT_LE(all.worst[i], factor) << kCheckNames[i] << " of " << all.where[i];
  }
  record(all);
}

void expect_accurate(const Tensors& got, const StackCase& stack, const Judging& judging) {
  const bool tf32 = judging.tf32.value_or(stack.descriptor.tf32);
  auto answers = answers_of(stack, tf32, plain_count(stack));
  const bool is_beyond = std::ranges::any_of(answers, [&](const auto& named) {
    const auto found = got.find(named.first);
    return found != got.end() && found->second.size() == named.second.exact.size() &&
           judge(found->second, named.second).largest() > judging.factor;
  });
  if (is_beyond) answers = answers_of(stack, tf32, kManyPlain);
  expect_accurate(got, answers, judging.factor);
}

void expect_close(const Tensors& got, const Tensors& want, double tolerance) {
  for (const auto& [name, values] : want) {
    ASSERT_TRUE(got.contains(name)) << name;
    ASSERT_EQ(got.at(name).size(), values.size()) << name;
    EXPECT_LE(relative_error(got.at(name), values), tolerance) << name;
  }
  EXPECT_EQ(got.size(), want.size());
}

}  // namespace sluice::kernels::recurrent::testing
