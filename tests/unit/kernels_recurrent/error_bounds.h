#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

/// How far a result may be from the exact one. The measure is the error of plain implementations
/// with the same roundings (oracle/rounding.h), never of one of ours. A wrong number is off by
/// about its own size, in any format many times the error of roundings, so the bounds catch it.
namespace sluice::kernels::recurrent::testing {

/// A contiguous part of a tensor, [steps, rows, width], from element `first` on. Each gate of a
/// weight matrix is a part of one step, whose rows are the units.
struct Part {
  std::string name;
  std::int64_t first = 0, steps = 1, rows = 1, width = 1;

  std::int64_t size() const { return steps * rows * width; }
};

/// A tensor as the oracle and as several plain implementations compute it.
struct Answer {
  std::vector<double> exact;
  std::vector<std::vector<double>> plain;
  std::vector<double> before;  ///< the values that gradients were added to; empty: none
  std::vector<Part> parts;
  double unit = 0;         ///< unit roundoff of the tensor's own format
  double format_unit = 0;  ///< unit roundoff of activations, or of the factors of products
  /// Multiplies the errors of the plain implementations. For float64 they are computed in float32,
  /// which has 29 bits fewer, and scaled down.
  double scale = 1;
};

/// The checks, each with its own bound.
enum class Check { kStep, kRow, kElement, kGain };
inline constexpr std::array kCheckNames{"step", "row", "element", "gain"};

/// For each check, the largest ratio of an error to its bound, and its place. Infinite if a number
/// that must be zero isn't, or if a number isn't finite.
struct Ratios {
  std::array<double, kCheckNames.size()> worst{};
  std::array<std::string, kCheckNames.size()> where{};

  void note(Check check, double ratio, const std::string& at);
  /// Keeps the larger ratio of each check.
  void merge(const Ratios& other, const std::string& name);
  double largest() const;
};

/// Compares a result with the answer. In the bounds, e is the root mean square error of the plain
/// implementations, and r is their error over the whole part relative to its numbers:
///   step, row: the root mean square of the errors of a step, and of a row. Bound: kGroup (for few
///     numbers up to kElement) times (e of the same elements + r times their root mean square).
///   element: each error. Bound: kElement times (e of its step, its row and itself + r times its
///     size).
///   gain: the mean factor by which a part is too large. Bound: kGain times that of the plain
///     implementations. It is far smaller than errors of single elements, so a wrong factor of one
///     gate shows.
/// All bounds but that of the gain are raised by one unit roundoff of the number itself, by four of
/// float32 of the part's size, and by one and a half of the number's format, because numbers of few
/// products share a rounded factor. The bound of the gain is raised by twelve unit roundoffs of
/// float32 and a quarter of one of the format: roundings go to either side, but an activation by
/// the GPU's own instruction may be off by so much to one side.
Ratios judge(const std::vector<double>& got, const Answer& answer);

}  // namespace sluice::kernels::recurrent::testing
