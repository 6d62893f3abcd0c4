#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

/// How far a result may lie from the exact one. The measure is what plain implementations of the
/// same roundings err by (oracle/rounding.h), never one of ours: a number that is wrong is off by
/// about its own size, which in any format is many times what roundings amount to.
namespace sluice::kernels::recurrent::testing {

/// A part of a tensor, [steps, rows, width], that begins at an element and has no gaps. Gates of a
/// matrix of weights are a part each, of one step; its rows are the units.
struct Part {
  std::string name;
  std::int64_t first = 0, steps = 1, rows = 1, width = 1;

  std::int64_t size() const { return steps * rows * width; }
};

/// A tensor as the oracle has it and as several plain implementations have it.
struct Answer {
  std::vector<double> exact;
  std::vector<std::vector<double>> plain;
  std::vector<double> before;  ///< what gradients were added to; empty: nothing
  std::vector<Part> parts;
  double unit = 0;         ///< the unit roundoff of the tensor's own format
  double format_unit = 0;  ///< that of the activations or of the factors of products
  /// Errors of plain implementations count so much: float64's are those of float32, which has 29
  /// bits fewer.
  double scale = 1;
};

/// What is held against a bound of its own.
enum class Check { kStep, kRow, kElement, kGain };
inline constexpr std::array kCheckNames{"step", "row", "element", "gain"};

/// Of each check the largest ratio of an error to its bound, and where that is. Infinite where what
/// must be zero isn't, or a number isn't finite.
struct Ratios {
  std::array<double, kCheckNames.size()> worst{};
  std::array<std::string, kCheckNames.size()> where{};

  void note(Check check, double ratio, const std::string& at);
  /// The larger one of each.
  void merge(const Ratios& other, const std::string& name);
  double largest() const;
};

/// Holds a result against the answer. The bounds, with e the root mean square of what the plain
/// implementations err by and r what they err by in the whole part relative to its numbers:
///   step, row: the root mean square of a step's and of a row's errors, against kGroup times (for
///     few numbers up to kElement times)
///     e of the same elements + r times their own root mean square;
///   element: each error, against kElement times e of its step and row and of itself + r times its
///     size;
///   gain: the mean factor by which a part is too large, against kGain times that of the plain
///     implementations, which is far smaller than errors of single elements: a factor of one gate
///     shows.
/// To each but the gain are added a unit roundoff of the number itself, four of float32 of the
/// part's size, and one and a half of the format of the number: numbers of few products share a
/// rounded factor. To the gain are added twelve unit roundoffs of float32 and a quarter of one of
/// the format: roundings draw to either side, but an activation that is made by the GPU's own
/// instruction may err by so much to one side.
Ratios judge(const std::vector<double>& got, const Answer& answer);

}  // namespace sluice::kernels::recurrent::testing
