#include "io/npy.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <iterator>
#include <limits>
#include <optional>
#include <string>

#include "base/check.h"
#include "base/counted.h"
#include "base/dtype.h"
#include "io/name_of_input.h"
#include "io/text_file.h"

namespace sluice::io {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are read as they stand");

constexpr std::string_view kMagic = "\x93NUMPY";
/// More than numpy writes for any array that we take.
constexpr std::size_t kLongestHeader = 65536;
constexpr std::size_t kMostAxes = 8;
/// A multiple of every number's size.
constexpr std::size_t kPieceBytes = std::size_t{1} << 20;

struct Header {
  std::string descr;
  bool fortran_order = false;
  std::vector<std::int64_t> shape;
};

/// The header's dictionary, a literal of Python: {'descr': '<f4', 'fortran_order': False, 'shape':
/// (3, 4), }.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, std::string_view name) : rest_(text), name_(name) {}

  Header parse() {
    expect('{');
    while (!take('}')) {
      const std::string key = quoted();
      expect(':');
      if (key == "descr" && !descr_) {
        descr_ = quoted();
      } else if (key == "fortran_order" && !fortran_order_) {
        fortran_order_ = boolean();
      } else if (key == "shape" && !shape_) {
        shape_ = tuple();
      } else {
        refuse();
      }
      if (!take(',')) {
        expect('}');
        break;
      }
    }
    skip_spaces();
    if (!rest_.empty() || !descr_ || !fortran_order_ || !shape_) refuse();
    return {*descr_, *fortran_order_, *shape_};
  }

 private:
  [[noreturn]] void refuse() const {
    base::fail(ErrorCode::kFormat, "{}: its header is not that of a .npy file", name_);
  }
  void skip_spaces() {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(" \n"), rest_.size()));
  }
  bool take(char wanted) {
    skip_spaces();
    if (rest_.empty() || rest_.front() != wanted) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void expect(char wanted) {
    if (!take(wanted)) refuse();
  }
  std::string quoted() {
    const char quote = take('\'') ? '\'' : '"';
    if (quote == '"') expect('"');
    const std::size_t end = rest_.find(quote);
    if (end == std::string_view::npos) refuse();
    const std::string text(rest_.substr(0, end));
    rest_.remove_prefix(end + 1);
    return text;
  }
  bool boolean() {
    skip_spaces();
    for (const std::string_view word : {"True", "False"}) {
      if (!rest_.starts_with(word)) continue;
      rest_.remove_prefix(word.size());
      return word == "True";
    }
    refuse();
  }
  std::int64_t number() {
    skip_spaces();
    std::int64_t value = 0;
    std::size_t digits = 0;
    for (; digits < rest_.size() && rest_[digits] >= '0' && rest_[digits] <= '9'; ++digits) {
      if (value > (std::numeric_limits<std::int64_t>::max() - 9) / 10) refuse();
      value = 10 * value + (rest_[digits] - '0');
    }
    if (digits == 0) refuse();
    rest_.remove_prefix(digits);
    return value;
  }
  std::vector<std::int64_t> tuple() {
    expect('(');
    std::vector<std::int64_t> sizes;
    while (!take(')')) {
      if (sizes.size() == kMostAxes) refuse();
      sizes.push_back(number());
      if (!take(',')) {
        expect(')');
        break;
      }
    }
    return sizes;
  }

  std::string_view rest_;
  std::string_view name_;
  std::optional<std::string> descr_;
  std::optional<bool> fortran_order_;
  std::optional<std::vector<std::int64_t>> shape_;
};

/// As much as there is, up to the span's size.
std::size_t read_fully(const ByteStream& source, std::span<char> out) {
  std::size_t held = 0;
  while (held < out.size()) {
    const std::size_t got = source(out.subspan(held));
    if (got == 0) break;
    held += got;
  }
  return held;
}

Header read_header(const ByteStream& source, std::string_view name) {
  std::array<char, 12> start{};
  const auto refuse = [&] {
    base::fail(ErrorCode::kFormat, "{}: it is not a .npy file, as numpy.save writes it", name);
  };
  if (read_fully(source, std::span(start).first(10)) != 10) refuse();
  if (std::string_view(start.data(), kMagic.size()) != kMagic) refuse();
  const int version = start[6];
  if (version < 1 || version > 3) {
    base::fail(ErrorCode::kFormat, "{}: it is of version {} of the .npy format; known are 1 to 3",
               name, version);
  }
  const auto byte = [&](std::size_t at) {
    return static_cast<std::size_t>(static_cast<unsigned char>(start[at]));
  };
  std::size_t length = byte(8) | byte(9) << 8;
  if (version > 1) {
    if (read_fully(source, std::span(start).last(2)) != 2) refuse();
    length |= byte(10) << 16 | byte(11) << 24;
  }
  if (length > kLongestHeader) refuse();
  std::string text(length, '\0');
  if (read_fully(source, text) != length) refuse();
  return HeaderParser(text, name).parse();
}

template <typename From, typename To>
void append_numbers(std::span<const char> bytes, std::vector<To>& numbers) {
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(From)) {
    From number;
    std::memcpy(&number, bytes.data() + at, sizeof(From));
    numbers.push_back(static_cast<To>(number));
  }
}

template <typename From>
constexpr NpyReader::Type floats_of(std::string_view descr) {
  return {descr, false, sizeof(From), [](std::span<const char> bytes, NpyArray& array) {
            append_numbers<From>(bytes, array.floats);
          }};
}
template <typename From>
constexpr NpyReader::Type integers_of(std::string_view descr) {
  return {descr, true, sizeof(From), [](std::span<const char> bytes, NpyArray& array) {
            append_numbers<From>(bytes, array.integers);
          }};
}

constexpr NpyReader::Type kTypes[] = {
    integers_of<std::uint8_t>("|b1"),  floats_of<base::Float16>("<f2"),
    floats_of<float>("<f4"),           floats_of<double>("<f8"),
    integers_of<std::int8_t>("|i1"),   integers_of<std::int16_t>("<i2"),
    integers_of<std::int32_t>("<i4"),  integers_of<std::int64_t>("<i8"),
    integers_of<std::uint8_t>("|u1"),  integers_of<std::uint16_t>("<u2"),
    integers_of<std::uint32_t>("<u4"),
};

std::size_t count_of(const Header& header, std::string_view name) {
  std::size_t count = 1;
  for (const std::int64_t size : header.shape) {
    // Of the largest number's size, so that bytes don't overflow either.
    if (size != 0 &&
        count > std::numeric_limits<std::size_t>::max() / 16 / static_cast<std::size_t>(size)) {
      base::fail(ErrorCode::kFormat, "{}: no file holds an array of shape {}", name,
                 to_string(header.shape));
    }
    count *= static_cast<std::size_t>(size);
  }
  return count;
}

}  // namespace

NpyReader::NpyReader(ByteStream source, std::string name)
    : source_(std::move(source)), name_(std::move(name)) {
  Header header = read_header(source_, name_);
  count_ = count_of(header, name_);
  if (header.fortran_order) {
    base::fail(ErrorCode::kFormat,
               "{}: the array is in Fortran order; save numpy.ascontiguousarray of it", name_);
  }
  type_ = std::find_if(std::begin(kTypes), std::end(kTypes),
                       [&](const Type& one) { return one.descr == header.descr; });
  if (type_ == std::end(kTypes)) {
    base::fail(ErrorCode::kFormat,
               "{}: the array's numbers are of type '{}'; save it as float32, float64, int32 or "
               "int64 of this machine's byte order",
               name_, header.descr.substr(0, 32));
  }
  shape_ = std::move(header.shape);
}

void NpyReader::refuse_count(const std::string& held) const {
  base::fail(ErrorCode::kFormat, "{}: its header promises {}, but it holds {}; is it damaged?",
             name_, base::counted(count_, "number"), held);
}

void NpyReader::read(std::int64_t count, NpyArray& array) {
  const std::size_t end = std::min(count_, done_ + static_cast<std::size_t>(count));
  std::vector<char> piece(std::min(kPieceBytes, (end - done_) * type_->bytes));
  while (done_ < end) {
    const auto wanted =
        std::span(piece).first(std::min(piece.size(), (end - done_) * type_->bytes));
    const std::size_t got = read_fully(source_, wanted);
    if (got % type_->bytes != 0) refuse_count("others");
    type_->append(wanted.first(got), array);
    done_ += got / type_->bytes;
    if (got < wanted.size()) refuse_count(fmt::format("{}", done_));
  }
  char more = 0;
  if (done_ == count_ && read_fully(source_, std::span(&more, 1)) != 0) refuse_count("others");
}

NpyArray read_npy(const ByteStream& source, std::string_view name) {
  NpyReader reader(source, std::string(name));
  NpyArray array{reader.shape(), reader.is_integer(), {}, {}};
  reader.read(reader.element_count(), array);
  return array;
}

NpyArray read_npy(const std::filesystem::path& path) {
  TextFile file(path);
  return read_npy([&](std::span<char> out) { return file.read(out); }, name_of_input(path));
}

std::string npy_header(std::span<const std::int64_t> shape) {
  std::string text = "{'descr': '<f4', 'fortran_order': False, 'shape': (";
  for (const std::int64_t size : shape) text += fmt::format("{}, ", size);
  text += "), }";
  // The numbers begin at a multiple of 64 bytes, after a line end.
  constexpr std::size_t kStart = 10, kAlignment = 64;
  const std::size_t length = (kStart + text.size() + 1 + kAlignment - 1) / kAlignment * kAlignment;
  text.append(length - kStart - text.size() - 1, ' ');
  text += '\n';
  std::string header(kMagic);
  header += {'\1', '\0', static_cast<char>(text.size() & 0xff),
             static_cast<char>(text.size() >> 8 & 0xff)};
  return header + text;
}

std::string to_string(std::span<const std::int64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

}  // namespace sluice::io
