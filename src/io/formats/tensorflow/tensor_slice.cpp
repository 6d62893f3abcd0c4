#include "io/formats/tensorflow/tensor_slice.h"

#include <algorithm>
#include <array>

#include "base/check.h"

namespace sluice::io::formats {
namespace {

using base::fail;

/// A number below 2^63: its length in bytes, then those bytes, highest first.
void append_ordered(std::string& key, std::uint64_t number) {
  std::string bytes;
  for (; number != 0; number >>= 8) bytes += static_cast<char>(number & 0xff);
  key += static_cast<char>(bytes.size());
  key.append(bytes.rbegin(), bytes.rend());
}

/// A string ends with 0 1; its own bytes 0 and 255 are escaped.
void append_ordered(std::string& key, std::string_view text) {
  for (const char c : text) {
    key += c;
    if (c == '\0') key += '\xff';
    if (c == '\xff') key += '\0';
  }
  key.append("\0\1", 2);
}

/// A signed number in n bytes has 7n - 1 bits, highest byte first. The code flips the top bits,
/// which are all copies of the sign: n of them say the length, with the sign before them.
void append_signed(std::string& key, std::int64_t number) {
  constexpr std::size_t kMost = 10;
  const std::uint64_t magnitude = static_cast<std::uint64_t>(number < 0 ? ~number : number);
  std::size_t length = 1;
  while (length < kMost && (7 * length - 1) < 64 && magnitude >> (7 * length - 1) != 0) ++length;
  std::array<unsigned char, kMost> bytes{};
  for (std::size_t i = 0; i < kMost; ++i) {
    const std::size_t shift = std::min<std::size_t>(8 * (kMost - 1 - i), 63);
    bytes[i] = static_cast<unsigned char>((number >> shift) & 0xff);
  }
  const std::size_t begin = kMost - length;
  for (std::size_t bit = 0; bit < length; ++bit) {
    bytes[begin + bit / 8] ^= static_cast<unsigned char>(0x80 >> (bit % 8));
  }
  for (std::size_t i = begin; i < kMost; ++i) key += static_cast<char>(bytes[i]);
}

TensorSlice::Range read_range(ProtoReader reader) {
  TensorSlice::Range range;
  while (reader.next()) {
    if (reader.tag() == 1) range.start = reader.int64();
    if (reader.tag() == 2) range.length = reader.int64();
  }
  return range;
}

}  // namespace

TensorSlice read_tensor_slice(ProtoReader reader) {
  TensorSlice slice;
  reserve_for(reader, 1, slice.ranges);
  while (reader.next()) {
    if (reader.tag() == 1) slice.ranges.push_back(read_range(reader.message("Extent")));
  }
  return slice;
}

std::string tensor_slice_key(std::string_view name, const TensorSlice& slice) {
  std::string key;
  append_ordered(key, std::uint64_t{0});
  append_ordered(key, name);
  append_ordered(key, std::uint64_t{slice.ranges.size()});
  for (const auto& [start, length] : slice.ranges) {
    append_signed(key, start);
    append_signed(key, length);
  }
  return key;
}

TensorSlice resolve_slice(const TensorSlice& slice, std::span<const std::int64_t> sizes,
                          std::string_view what) {
  if (slice.ranges.size() != sizes.size()) {
    fail(ErrorCode::kFormat, "{} has {} axes, but a slice of it has {}", what, sizes.size(),
         slice.ranges.size());
  }
  TensorSlice resolved = slice;
  for (std::size_t axis = 0; axis < sizes.size(); ++axis) {
    TensorSlice::Range& range = resolved.ranges[axis];
    if (range.length == -1 && range.start == 0) range.length = sizes[axis];
    if (range.start < 0 || range.length < 0 || range.start > sizes[axis] ||
        range.length > sizes[axis] - range.start) {
      fail(ErrorCode::kFormat, "{} has a slice of {} from {} on along axis {} of size {}", what,
           range.length, range.start, axis, sizes[axis]);
    }
  }
  return resolved;
}

std::uint64_t slice_count(const TensorSlice& slice) {
  std::uint64_t count = 1;
  for (const TensorSlice::Range& range : slice.ranges) {
    count *= static_cast<std::uint64_t>(range.length);
  }
  return count;
}

void check_slice_counts(std::span<const TensorSlice> slices, std::uint64_t count,
                        std::string_view what) {
  std::uint64_t sum = 0;
  for (const TensorSlice& slice : slices) {
    // Neither exceeds the number of elements, which has 59 bits.
    sum = std::min(sum + slice_count(slice), count + 1);
  }
  if (sum != count) {
    fail(ErrorCode::kFormat,
         "{} has {} elements, but its slices do not cover them once each; are files missing?", what,
         count);
  }
}

SliceJoiner::SliceJoiner(HostTensor& tensor, std::string_view what)
    : tensor_(tensor),
      what_(what),
      width_(base::size_of(tensor.dtype)),
      covered_(tensor.data.size() / width_) {}

void SliceJoiner::add(const TensorSlice& slice, std::span<const std::byte> data) {
  SLUICE_ASSERT(data.size() == slice_count(slice) * width_);
  if (!data.empty()) add_axis(slice, 0, 0, data);
}

/// Copies the elements from `axis` on; `element` is the index along the axes before it. Takes what
/// it copies from the front of `data`.
void SliceJoiner::add_axis(const TensorSlice& slice, std::size_t axis, std::size_t element,
                           std::span<const std::byte>& data) {
  const bool is_element = axis == slice.ranges.size();
  const auto [start, length] = is_element ? TensorSlice::Range{0, 1} : slice.ranges[axis];
  const std::size_t size = is_element ? 1 : static_cast<std::size_t>(tensor_.shape[axis]);
  const std::size_t first = element * size + static_cast<std::size_t>(start);
  const auto count = static_cast<std::size_t>(length);
  if (axis + 1 < slice.ranges.size()) {
    for (std::size_t i = 0; i < count; ++i) add_axis(slice, axis + 1, first + i, data);
    return;
  }
  for (std::size_t i = first; i < first + count; ++i) {
    if (covered_[i]) fail(ErrorCode::kFormat, "{} has slices that overlap", what_);
    covered_[i] = true;
  }
  std::copy_n(data.begin(), count * width_,
              tensor_.data.begin() + static_cast<std::ptrdiff_t>(first * width_));
  data = data.subspan(count * width_);
}

}  // namespace sluice::io::formats
