#include "io/formats/proto_reader.h"

#include <algorithm>
#include <bit>
#include <span>

namespace sluice::io::formats {
namespace {

using protozero::pbf_wire_type;

static_assert(std::endian::native == std::endian::little, "numbers are read as they stand");

constexpr std::uint64_t kLargestMessage = std::uint64_t{1} << 31;

}  // namespace

void ProtoReader::fail(ErrorCode code, const std::string& sentence) const {
  base::fail(code, "'{}': the {} at byte {} {}", file_, message_, bytes_.data() - file_begin_,
             sentence);
}

template <typename Call>
auto ProtoReader::guarded(Call&& call) const {
  try {
    return call();
  } catch (const protozero::exception&) {
    refuse("is cut off or damaged near its byte {}; get the file anew",
           bytes_.size() - reader_.length());
  }
}

template <typename Call>
auto ProtoReader::value(pbf_wire_type type, Call&& call) {
  if (!reader_.has_wire_type(type)) {
    refuse("has the wire type {} in field {} where the format has {}; the file is damaged",
           static_cast<unsigned>(reader_.wire_type()), tag(), static_cast<unsigned>(type));
  }
  unread_ = false;
  return guarded(call);
}

bool ProtoReader::next() {
  return guarded([&] {
    if (unread_) reader_.skip();
    unread_ = reader_.next();
    return unread_;
  });
}

std::int64_t ProtoReader::int64() {
  return value(pbf_wire_type::varint, [&] { return reader_.get_int64(); });
}

float ProtoReader::float32() { return std::bit_cast<float>(fixed32()); }

std::uint32_t ProtoReader::fixed32() {
  return value(pbf_wire_type::fixed32, [&] { return reader_.get_fixed32(); });
}

std::uint64_t ProtoReader::fixed(std::size_t width) {
  if (width == sizeof(std::uint32_t)) return fixed32();
  return value(pbf_wire_type::fixed64, [&] { return reader_.get_fixed64(); });
}

std::string_view ProtoReader::bytes() {
  const protozero::data_view view =
      value(pbf_wire_type::length_delimited, [&] { return reader_.get_view(); });
  return {view.data(), view.size()};
}

ProtoReader ProtoReader::message(const char* message) {
  if (depth_ == kDeepest) refuse("nests messages more than {} deep", kDeepest);
  return {bytes(), file_, message, file_begin_, depth_ + 1};
}

std::int64_t ProtoReader::take_varint(std::string_view& packed) const {
  const char* at = packed.data();
  const auto number = guarded([&] {
    return static_cast<std::int64_t>(protozero::decode_varint(&at, packed.data() + packed.size()));
  });
  packed.remove_prefix(static_cast<std::size_t>(at - packed.data()));
  return number;
}

std::string_view ProtoReader::checked_packed(std::size_t width) {
  const std::string_view packed = bytes();
  if (packed.size() % width != 0) {
    refuse("has {} bytes of {}-byte numbers in field {}; the file is damaged", packed.size(), width,
           tag());
  }
  return packed;
}

std::size_t ProtoReader::count(std::uint32_t tag) const {
  return guarded([&] {
    protozero::pbf_reader reader(bytes_.data(), bytes_.size());
    std::size_t count = 0;
    while (reader.next()) {
      if (reader.tag() == tag) ++count;
      reader.skip();
    }
    return count;
  });
}

std::string read_message_bytes(const ByteSource& source) {
  const std::uint64_t size = source.size();
  if (size > kLargestMessage) {
    base::fail(ErrorCode::kFormat,
               "'{}' has {} bytes, and a protobuf message has at most {}; is it another file?",
               source.path().native(), size, kLargestMessage);
  }
  std::string bytes(static_cast<std::size_t>(size), '\0');
  source.read_at(0, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

void check_message_size(std::string_view bytes) {
  if (bytes.size() <= kLargestMessage) return;
  base::fail(ErrorCode::kUnsupported,
             "a file of {} bytes cannot be written, since a protobuf message has at most {}",
             bytes.size(), kLargestMessage);
}

bool looks_like_text(std::string_view bytes) {
  constexpr std::size_t kSample = 512;
  const std::string_view sample = bytes.substr(0, kSample);
  return sample.find_first_of("{:") != std::string_view::npos &&
         std::all_of(sample.begin(), sample.end(), [](unsigned char c) {
           return c >= 0x20 ? c != 0x7f : c == '\n' || c == '\r' || c == '\t';
         });
}

}  // namespace sluice::io::formats
