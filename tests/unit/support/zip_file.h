#pragma once

#include <zlib.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace sluice::testing {

struct ZipMember {
  std::string name;
  std::string bytes;
  bool deflated = false;
};

namespace zip {

/// A little-endian number of that many bytes.
inline std::string number(std::uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i) & 0xff);
  return text;
}

inline std::string deflated(const std::string& bytes) {
  z_stream stream{};
  if (deflateInit2(&stream, 6, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
    throw std::runtime_error("cannot deflate");
  }
  std::string packed(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

}  // namespace zip

/// The bytes of a zip file as numpy.savez writes it: sizes of local headers in a zip64 field.
inline std::string zip_file(const std::vector<ZipMember>& members) {
  using zip::number;
  std::string file, directory;
  for (const ZipMember& member : members) {
    const std::string packed = member.deflated ? zip::deflated(member.bytes) : member.bytes;
    const auto checksum =
        static_cast<std::uint32_t>(crc32(0, reinterpret_cast<const Bytef*>(member.bytes.data()),
                                         static_cast<uInt>(member.bytes.size())));
    // Version, flags, method, time and date, checksum: the same in both places.
    const std::string common = number(45, 2) + number(0, 2) + number(member.deflated ? 8 : 0, 2) +
                               number(0, 4) + number(checksum, 4);
    const std::string sizes64 =
        number(1, 2) + number(16, 2) + number(member.bytes.size(), 8) + number(packed.size(), 8);
    directory += number(0x02014b50, 4) + number(45, 2) + common + number(packed.size(), 4) +
                 number(member.bytes.size(), 4) + number(member.name.size(), 2) + number(0, 2) +
                 number(0, 2) + number(0, 2) + number(0, 2) + number(0, 4) +
                 number(file.size(), 4) + member.name;
    file += number(0x04034b50, 4) + common + number(0xffffffff, 4) + number(0xffffffff, 4) +
            number(member.name.size(), 2) + number(sizes64.size(), 2) + member.name + sizes64 +
            packed;
  }
  return file + directory + number(0x06054b50, 4) + number(0, 4) + number(members.size(), 2) +
         number(members.size(), 2) + number(directory.size(), 4) + number(file.size(), 4) +
         number(0, 2);
}

}  // namespace sluice::testing
