#pragma once

#include <cstdint>
#include <vector>

#include "oracle/matrix.h"

namespace sluice::oracle {

/// Formats that an implementation may compute in. With the last two, activations and gradients of
/// activations are stored in 16 bits; with kTf32 products cut their factors off after ten bits.
/// Sums, cell states and gradients of weights are float32 in all but kFloat64.
enum class Format { kFloat64, kFloat32, kTf32, kBFloat16, kFloat16 };

/// The roundings of a plain implementation, so that the oracle can be run as one. With draw 0 all
/// round to the nearest (TF32: cut off), and sums run in ascending order. Any other draw seeds a
/// choice between the two neighbours of each number, the nearer one more often, and products sum
/// up from another place on: each draw is an implementation that is about as good, so that their
/// errors together say how far good results may lie from the exact one.
class Rounding {
 public:
  explicit Rounding(Format format, std::uint64_t draw = 0);

  Format format() const { return format_; }
  bool is_exact() const { return format_ == Format::kFloat64; }

  /// What is stored as an activation or as the gradient of one.
  void store(std::vector<double>& values) { store(values.data(), values.size()); }
  void store(double* values, std::size_t count);
  /// What is kept in float32.
  void keep(std::vector<double>& values) { keep(values.data(), values.size()); }
  void keep(double* values, std::size_t count);
  /// What a gate's function returns. Vector code may err by three units in the last place of
  /// float32, the C library by one.
  void activate(std::vector<double>& values) { activate(values.data(), values.size()); }
  void activate(double* values, std::size_t count);
  /// Numbers of a row [rows, columns] whose products are of 8-bit integers: one in twenty falls on
  /// the other side of the middle between two integers.
  double shift_of_integer();

  /// c[m, n] += a[m, k] b[k, n], with factors and sums rounded.
  void multiply_add(int64_t m, int64_t n, int64_t k, MatrixView a, MatrixView b, double* c);

 private:
  double rounded(double value, int bits, int least_exponent);
  double uniform();  ///< [0, 1)
  std::vector<double> factors(int64_t rows, int64_t columns, MatrixView from);

  Format format_;
  bool draws_;
  std::uint64_t state_;
};

}  // namespace sluice::oracle
