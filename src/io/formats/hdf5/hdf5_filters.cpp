#include "io/formats/hdf5/hdf5_filters.h"

#include <zlib.h>

#include <limits>

#include "base/check.h"

namespace sluice::io::formats {
namespace {

constexpr std::uint16_t kDeflate = 1, kShuffle = 2;
constexpr std::size_t kMostFilters = 4;

[[noreturn]] void refuse(std::string_view where) {
  base::fail(ErrorCode::kFormat, "{}: a compressed chunk is damaged; copy the file again", where);
}

std::vector<std::byte> inflate_chunk(std::span<const std::byte> packed, std::size_t bytes,
                                     std::string_view where) {
  std::vector<std::byte> chunk(bytes);
  if (bytes > std::numeric_limits<uInt>::max() ||
      packed.size() > std::numeric_limits<uInt>::max()) {
    refuse(where);
  }
  auto held = static_cast<uLongf>(bytes);
  auto used = static_cast<uLong>(packed.size());
  const int result = uncompress2(reinterpret_cast<Bytef*>(chunk.data()), &held,
                                 reinterpret_cast<const Bytef*>(packed.data()), &used);
  if (result != Z_OK || held != bytes) refuse(where);
  return chunk;
}

/// The first bytes of all elements stand in front of their second bytes, and so on.
std::vector<std::byte> unshuffle(std::span<const std::byte> shuffled, std::size_t element) {
  std::vector<std::byte> chunk(shuffled.begin(), shuffled.end());
  const std::size_t count = shuffled.size() / element;
  if (count == 0) return chunk;
  for (std::size_t byte = 0; byte < element; ++byte) {
    for (std::size_t i = 0; i < count; ++i) {
      chunk[i * element + byte] = shuffled[byte * count + i];
    }
  }
  return chunk;
}

std::string_view name_of_filter(std::uint16_t id) {
  switch (id) {
    case 3:
      return "fletcher32";
    case 4:
      return "szip";
    case 5:
      return "nbit";
    case 6:
      return "scale-offset";
    case 32000:
      return "lzf";
    default:
      return "an unknown one";
  }
}

}  // namespace

void require_hdf5_filters(std::span<const Hdf5Filter> filters, std::string_view where) {
  // Each one takes a pass over all chunks.
  if (filters.size() > kMostFilters) {
    base::fail(ErrorCode::kUnsupported, "{}: it has {} filters; at most {} are read", where,
               filters.size(), kMostFilters);
  }
  for (const Hdf5Filter& filter : filters) {
    if (filter.id == kDeflate || filter.id == kShuffle) continue;
    base::fail(ErrorCode::kUnsupported,
               "{}: its filter {} ({}) is not read; save it with gzip or without compression",
               where, filter.id, name_of_filter(filter.id));
  }
}

std::vector<std::byte> undo_hdf5_filters(std::vector<std::byte> stored,
                                         std::span<const Hdf5Filter> filters, std::uint32_t mask,
                                         std::size_t bytes, std::size_t element,
                                         std::string_view where) {
  for (std::size_t i = filters.size(); i-- > 0;) {
    if (i < 32 && (mask >> i & 1) != 0) continue;
    stored = filters[i].id == kDeflate ? inflate_chunk(stored, bytes, where)
                                       : unshuffle(stored, element);
  }
  if (stored.size() != bytes) refuse(where);
  return stored;
}

}  // namespace sluice::io::formats
