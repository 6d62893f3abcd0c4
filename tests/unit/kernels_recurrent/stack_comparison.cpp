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
      d.layers, d.directions, d.input, d.hidden, fmt::join(d.projections, ","), stack.time, d.time,
      stack.rows, d.rows, base::name_of(d.dtype), d.dropout, d.training);
  if (d.resets) text += " resets";
  for (const int reset : stack.input.resets) text += fmt::format(" {}", reset);
  if (d.peepholes) text += " peepholes";
  if (d.layer_norm) text += " layer norm";
  text += fmt::format(" zoneout {} {} recurrent dropout {}", d.zoneout_h, d.zoneout_c,
                      d.recurrent_dropout);
  for (const int length : stack.input.lengths) text += fmt::format(" {}", length);
  return text;
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
