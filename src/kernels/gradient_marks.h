#pragma once

#include <cstdint>

#include "kernels/check.h"

/// Which parts of an array of gradients may be other than zero. A step touches few rows of an
/// embedding: who adds to them marks what it adds to, and whoever passes over the array leaves out
/// what has no mark, which is zero in memory as well. Only zeroing takes marks away.
namespace sluice::kernels {

/// Elements that share a mark: of float32 what a warp of a GPU moves at once.
inline constexpr std::int64_t kElementsPerMark = 128;

enum Mark : std::uint8_t {
  kUnmarked = 0,
  kMarked = 1,       ///< until the gradients are zeroed
  kAlwaysMarked = 2  ///< by who doesn't mark what it adds to
};

/// The chunk that an element of the array lies in; also how many chunks so many elements begin.
constexpr std::int64_t mark_of(std::int64_t element) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(element) / kElementsPerMark);
}
constexpr std::int64_t mark_count(std::int64_t elements) {
  return mark_of(elements + kElementsPerMark - 1);
}

/// What is known of gradients that are a part of the array.
struct GradientMarks {
  runtime::Tensor values;  ///< uint8 [mark_count(of the array)]; absent: all may be non-zero
  std::int64_t begin = 0;  ///< element of the array with which the part begins
};

/// Checks that there are marks for all `count` elements of the part.
inline void check_marks(const GradientMarks& marks, std::int64_t count,
                        std::string_view operation) {
  if (!marks.values) return;
  check_dtype(marks.values, base::DType::kUInt8, operation, "gradient marks");
  SLUICE_CHECK(marks.values.rank() == 1 && marks.values.is_contiguous(),
               "{}: gradient marks must be one flat axis, not {}", operation,
               marks.values.shape().to_string());
  SLUICE_CHECK(marks.begin >= 0 && mark_count(marks.begin + count) <= marks.values.size(0),
               "{}: {} marks of {} elements each don't reach from element {} on over {} gradients",
               operation, marks.values.size(0), kElementsPerMark, marks.begin, count);
}

/// The same for leaves, which read and set marks when they run.
struct Marks {
  std::uint8_t* data = nullptr;  ///< null: all may be non-zero
  std::int64_t begin = 0;

  Marks() = default;
  explicit Marks(const GradientMarks& marks)
      : data(marks.values.data_as<std::uint8_t>()), begin(marks.begin) {}

  /// Whether element i of the part may be other than zero.
  constexpr bool is_marked(std::int64_t i) const {
    return data == nullptr || data[mark_of(begin + i)] != kUnmarked;
  }
  /// The first element behind i that another mark is for.
  constexpr std::int64_t end_of_chunk(std::int64_t i) const {
    return (mark_of(begin + i) + 1) * kElementsPerMark - begin;
  }
  /// Marks the elements [first, end). Threads of a GPU may mark the same ones at once.
  constexpr void mark(std::int64_t first, std::int64_t end) const {
    if (data == nullptr) return;
    for (std::int64_t i = first; i < end; i = end_of_chunk(i)) {
      std::uint8_t& mark = data[mark_of(begin + i)];
      if (mark == kUnmarked) mark = kMarked;
    }
  }
};

}  // namespace sluice::kernels
