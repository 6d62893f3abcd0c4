#include "checking/tolerance.h"

#include <algorithm>
#include <cmath>

namespace sluice::checking {
namespace {

using runtime::DType;

/// Numbers of so many significant bits are off by at most this share of themselves.
double unit_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
      return 0x1p-53;
    case DType::kFloat16:
      return 0x1p-11;
    case DType::kBFloat16:
      return 0x1p-8;
    default:
      return 0x1p-24;
  }
}

// TF32 has the significant bits of float16.
constexpr double kTf32 = 0x1p-11;

// Steps of 1/127 of a row's largest number: half a step, 1/254 of it, is 1/64 of what is usual in
// the row, where the largest is four times as large. Both factors are rounded so.
constexpr double kInt8 = 0x1p-5;

// A float32 sum of n products, in any order, is off by about sqrt(n) units of 2^-24: 2^-19 stands
// for the thousand products of a gate.
constexpr double kSums = 0x1p-19;

// How much more than the usual error the largest of millions is (about six deviations), and than
// that of one step what recurrence adds up: a gate that forgets passes it on ever smaller.
constexpr double kLargest = 8;

// Standardising features is a subtraction and a product, whose roundings differ where a machine
// has them in one operation.
constexpr double kInput = 0x1p-22;

}  // namespace

Rounding rounding_of(DType dtype) {
  const double unit = unit_of(dtype);
  return {unit, std::max(kSums, unit)};
}

Rounding rounding_of(const runtime::Precision& precision) {
  Rounding rounding = rounding_of(precision.storage);
  if (precision.tf32) rounding.sums = std::max(rounding.sums, kTf32);
  if (precision.int8) rounding.sums = std::max(rounding.sums, kInt8);
  return rounding;
}

double tolerance_of(const Rounding& one, const Rounding& other, std::int64_t sums) {
  if (sums == 0) return std::max(kInput, one.stored + other.stored);
  // Errors of layers are independent and none is made larger by the next, so their squares add up.
  return kLargest * std::sqrt(static_cast<double>(sums)) * (one.sums + other.sums);
}

}  // namespace sluice::checking
