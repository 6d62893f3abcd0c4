#include "oracle/rounding.h"

#include <cmath>

namespace sluice::oracle {
namespace {

/// Bits of a significand, the hidden one among them, and the exponent of the least normal number:
/// below it numbers lie as far apart as there.
struct Shape {
  int bits, least_exponent;
};
constexpr Shape kFloat32Shape{24, -126}, kBFloat16Shape{8, -126}, kFloat16Shape{11, -14};
constexpr int kTf32Bits = 11;
/// Of float32's last place, by which an activation may be off.
constexpr double kActivationError = 3 * 0x1p-24;

}  // namespace

Rounding::Rounding(Format format, std::uint64_t draw)
    : format_(format), draws_(draw != 0), state_(draw * 0x9e3779b97f4a7c15u + 1) {}

// Marsaglia's xorshift64*, in the form of Vigna ("An experimental exploration of Marsaglia's
// xorshift generators, scrambled", 2016).
double Rounding::uniform() {
  state_ ^= state_ >> 12;
  state_ ^= state_ << 25;
  state_ ^= state_ >> 27;
  return static_cast<double>((state_ * 0x2545f4914f6cdd1du) >> 11) * 0x1p-53;
}

double Rounding::rounded(double value, int bits, int least_exponent) {
  if (value == 0 || !std::isfinite(value)) return value;
  int exponent = 0;
  std::frexp(value, &exponent);  // |value| in [2^(exponent - 1), 2^exponent)
  const double unit = std::ldexp(1.0, std::max(exponent - 1, least_exponent) - (bits - 1));
  const double places = value / unit;
  return (draws_ ? std::floor(places + uniform()) : std::nearbyint(places)) * unit;
}

void Rounding::store(double* values, std::size_t count) {
  if (format_ != Format::kBFloat16 && format_ != Format::kFloat16) return keep(values, count);
  const Shape shape = format_ == Format::kBFloat16 ? kBFloat16Shape : kFloat16Shape;
  for (std::size_t i = 0; i < count; ++i)
    values[i] = rounded(values[i], shape.bits, shape.least_exponent);
}

void Rounding::keep(double* values, std::size_t count) {
  if (is_exact()) return;
  for (std::size_t i = 0; i < count; ++i)
    values[i] = draws_ ? rounded(values[i], kFloat32Shape.bits, kFloat32Shape.least_exponent)
                       : static_cast<double>(static_cast<float>(values[i]));
}

void Rounding::activate(double* values, std::size_t count) {
  if (is_exact()) return;
  if (!draws_) return keep(values, count);
  for (std::size_t i = 0; i < count; ++i) values[i] *= 1 + kActivationError * (2 * uniform() - 1);
}

double Rounding::shift_of_integer() {
  constexpr double kShare = 0.05;
  return draws_ ? kShare * (2 * uniform() - 1) : 0;
}

std::vector<double> Rounding::factors(int64_t rows, int64_t columns, MatrixView from) {
  std::vector<double> result(static_cast<std::size_t>(rows * columns));
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      result[i * columns + j] = from.data[i * from.row_stride + j * from.column_stride];
  if (format_ != Format::kTf32) return result;
  for (double& value : result) {
    if (draws_) {
      value = rounded(value, kTf32Bits, kFloat32Shape.least_exponent);
    } else {  // cut off, as tensor cores do
      int exponent = 0;
      const double significand = std::frexp(value, &exponent);
      value = std::ldexp(std::trunc(std::ldexp(significand, kTf32Bits)), exponent - kTf32Bits);
    }
  }
  return result;
}

void Rounding::multiply_add(int64_t m, int64_t n, int64_t k, MatrixView a, MatrixView b,
                            double* c) {
  if (is_exact()) return oracle::multiply_add(m, n, k, a, b, c);
  const std::vector<double> left = factors(m, k, a), right = factors(k, n, b);
  if (format_ != Format::kFloat32) {
    // Beside the roundings of factors those of the sum don't count, but for the last one.
    oracle::multiply_add(m, n, k, plain(left.data(), k), plain(right.data(), n), c);
    return keep(c, static_cast<std::size_t>(m * n));
  }
  const std::vector<float> narrow(right.begin(), right.end());
  const int64_t first =
      draws_ && k > 0 ? static_cast<int64_t>(uniform() * static_cast<double>(k)) : 0;
#pragma omp parallel for schedule(static) if (m * n * k > 100000)
  for (int64_t i = 0; i < m; ++i) {
    std::vector<float> sums(c + i * n, c + (i + 1) * n);
    for (int64_t step = 0; step < k; ++step) {
      const int64_t p = (first + step) % k;
      const auto factor = static_cast<float>(left[i * k + p]);
      const float* row = &narrow[p * n];
      for (int64_t j = 0; j < n; ++j) sums[j] += factor * row[j];
    }
    for (int64_t j = 0; j < n; ++j) c[i * n + j] = sums[j];
  }
}

}  // namespace sluice::oracle
