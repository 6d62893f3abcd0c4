#pragma once

#include <cstdint>

#include "kernels/check.h"

/// Which parts of an array of gradients may be other than zero. A step touches few rows of an
/// embedding: who adds to them marks what it adds to, and whoever passes over the array leaves out
/// what has no mark, which is zero in memory as well. Only zeroing takes marks away.
namespace sluice::kernels {

/// Elements that share a mark: of float32 what a warp of a GPU moves at once.
inline constexpr std::int64_t kTouchedChunk = 128;

enum Mark : std::uint8_t {
  kUntouched = 0,
  kTouched = 1,       ///< until the gradients are zeroed
  kAlwaysTouched = 2  ///< by who doesn't mark what it adds to
};

/// The chunk that an element of the array lies in; also how many chunks so many elements begin.
constexpr std::int64_t touched_chunk_of(std::int64_t element) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(element) / kTouchedChunk);
}
constexpr std::int64_t touched_chunks(std::int64_t elements) {
  return touched_chunk_of(elements + kTouchedChunk - 1);
}

/// What is known of gradients that are a part of the array.
struct Touched {
  runtime::Tensor marks;   ///< uint8 [touched_chunks(of the array)]; absent: all may be non-zero
  std::int64_t begin = 0;  ///< element of the array with which the part begins
};

/// Checks that there are marks for all `count` elements of the part.
inline void check_touched(const Touched& touched, std::int64_t count, std::string_view operation) {
  if (!touched.marks) return;
  check_dtype(touched.marks, base::DType::kUInt8, operation, "touched.marks");
  SLUICE_CHECK(touched.marks.rank() == 1 && touched.marks.is_contiguous(),
               "{}: touched.marks must be one flat axis, not {}", operation,
               touched.marks.shape().to_string());
  SLUICE_CHECK(touched.begin >= 0 && touched_chunks(touched.begin + count) <= touched.marks.size(0),
               "{}: {} marks of {} elements each don't reach from element {} on over {} gradients",
               operation, touched.marks.size(0), kTouchedChunk, touched.begin, count);
}

/// The same for leaves, which read and set marks when they run.
struct Marks {
  std::uint8_t* data = nullptr;  ///< null: all is touched
  std::int64_t begin = 0;

  Marks() = default;
  explicit Marks(const Touched& touched)
      : data(touched.marks.data_as<std::uint8_t>()), begin(touched.begin) {}

  /// Whether element i of the part may be other than zero.
  constexpr bool touched(std::int64_t i) const {
    return data == nullptr || data[touched_chunk_of(begin + i)] != kUntouched;
  }
  /// The first element behind i that another mark is for.
  constexpr std::int64_t end_of_chunk(std::int64_t i) const {
    return (touched_chunk_of(begin + i) + 1) * kTouchedChunk - begin;
  }
  /// Marks the elements [first, end). Threads of a GPU may mark the same ones at once.
  constexpr void touch(std::int64_t first, std::int64_t end) const {
    if (data == nullptr) return;
    for (std::int64_t i = first; i < end; i = end_of_chunk(i)) {
      std::uint8_t& mark = data[touched_chunk_of(begin + i)];
      if (mark == kUntouched) mark = kTouched;
    }
  }
};

}  // namespace sluice::kernels
