#include "io/formats/zip_writer.h"

#include <zlib.h>

#include <algorithm>

#include "base/check.h"
#include "base/shape.h"
#include "io/little_endian.h"
#include "io/safetensors_header.h"

namespace sluice::io::formats {
namespace {

constexpr std::uint32_t kLocalHeader = 0x04034b50, kDirectoryEntry = 0x02014b50;
constexpr std::uint32_t kDirectoryEnd = 0x06054b50, kDirectoryEnd64 = 0x06064b50;
constexpr std::uint32_t kDirectoryLocator64 = 0x07064b50;
constexpr std::size_t kLocalHeaderBytes = 30, kExtraHeaderBytes = 4, kAlignment = 64;
constexpr std::uint16_t kZip64Field = 1;
/// The field that PyTorch fills up with; readers skip it.
constexpr std::uint16_t kPaddingField = 0x4246;
constexpr std::uint16_t kUtf8Names = 0x0800;
constexpr std::uint16_t kPlainVersion = 20, kZip64Version = 45;
constexpr std::uint32_t kNewYear1980 = 0x21u << 16;
constexpr std::uint64_t kInZip64 = 0xffffffff, kCountInZip64 = 0xffff;
constexpr std::size_t kLongestName = 65535;

void append_16(std::string& bytes, std::uint64_t number) { append_little_endian(bytes, number, 2); }
void append_32(std::string& bytes, std::uint64_t number) { append_little_endian(bytes, number, 4); }
void append_64(std::string& bytes, std::uint64_t number) { append_little_endian(bytes, number, 8); }
std::uint64_t clamped(std::uint64_t number) { return std::min(number, kInZip64); }

std::uint32_t checksum_of(std::span<const std::byte> content) {
  return static_cast<std::uint32_t>(
      crc32_z(0, reinterpret_cast<const Bytef*>(content.data()), content.size()));
}

/// The common part of a local header and a directory entry: from the version to the name's length.
void append_description(std::string& bytes, std::uint64_t content_bytes, std::uint32_t checksum,
                        std::size_t name_bytes, bool is_zip64) {
  append_16(bytes, is_zip64 ? kZip64Version : kPlainVersion);
  append_16(bytes, kUtf8Names);
  append_16(bytes, 0);  // stored
  append_32(bytes, kNewYear1980);
  append_32(bytes, checksum);
  append_32(bytes, clamped(content_bytes));
  append_32(bytes, clamped(content_bytes));
  append_16(bytes, name_bytes);
}

}  // namespace

void ZipWriter::put(std::string_view bytes) {
  file_.write(std::as_bytes(std::span(bytes)));
  at_ += bytes.size();
}

void ZipWriter::add(std::string_view name, std::span<const std::byte> content) {
  SLUICE_CHECK(!name.empty() && name.size() <= kLongestName,
               "'{}': a member's name has 1 to {} bytes, not {}", path_.native(), kLongestName,
               name.size());
  for (const Member& member : members_) {
    SLUICE_CHECK(member.name != name, "'{}': member {} is added twice", path_.native(),
                 quote_name(name));
  }
  const Member member{std::string(name), at_, content.size(), checksum_of(content)};
  std::string extra;
  if (member.bytes >= kInZip64) {
    append_16(extra, kZip64Field);
    append_16(extra, 16);
    append_64(extra, member.bytes);
    append_64(extra, member.bytes);
  }
  const std::uint64_t begin =
      at_ + kLocalHeaderBytes + name.size() + extra.size() + kExtraHeaderBytes;
  const std::uint64_t padding = base::align_up(begin, kAlignment) - begin;
  append_16(extra, kPaddingField);
  append_16(extra, padding);
  extra.append(padding, 'Z');

  std::string header;
  append_32(header, kLocalHeader);
  append_description(header, member.bytes, member.checksum, name.size(), member.bytes >= kInZip64);
  append_16(header, extra.size());
  put(header);
  put(name);
  put(extra);
  file_.write(content);
  at_ += content.size();
  members_.push_back(member);
}

void ZipWriter::finish() {
  const std::uint64_t directory_at = at_;
  for (const Member& member : members_) {
    std::string extra;
    if (member.bytes >= kInZip64) {
      append_64(extra, member.bytes);
      append_64(extra, member.bytes);
    }
    if (member.offset >= kInZip64) append_64(extra, member.offset);
    const bool is_zip64 = !extra.empty();
    std::string entry;
    append_32(entry, kDirectoryEntry);
    append_16(entry, is_zip64 ? kZip64Version : kPlainVersion);
    append_description(entry, member.bytes, member.checksum, member.name.size(), is_zip64);
    append_16(entry, is_zip64 ? extra.size() + kExtraHeaderBytes : 0);
    entry.append(10, '\0');  // comment, disk, attributes
    append_32(entry, clamped(member.offset));
    entry += member.name;
    if (is_zip64) {
      append_16(entry, kZip64Field);
      append_16(entry, extra.size());
      entry += extra;
    }
    put(entry);
  }
  put_end(directory_at);
  file_.commit();
}

void ZipWriter::put_end(std::uint64_t directory_at) {
  const std::uint64_t count = members_.size(), bytes = at_ - directory_at, end64_at = at_;
  std::string end;
  if (count >= kCountInZip64 || bytes >= kInZip64 || directory_at >= kInZip64) {
    append_32(end, kDirectoryEnd64);
    append_64(end, 44);  // bytes of this record that follow
    append_16(end, kZip64Version);
    append_16(end, kZip64Version);
    append_64(end, 0);  // disks
    append_64(end, count);
    append_64(end, count);
    append_64(end, bytes);
    append_64(end, directory_at);
    append_32(end, kDirectoryLocator64);
    append_32(end, 0);
    append_64(end, end64_at);
    append_32(end, 1);
  }
  append_32(end, kDirectoryEnd);
  append_32(end, 0);  // disks
  append_16(end, std::min(count, kCountInZip64));
  append_16(end, std::min(count, kCountInZip64));
  append_32(end, clamped(bytes));
  append_32(end, clamped(directory_at));
  append_16(end, 0);  // comment
  put(end);
}

}  // namespace sluice::io::formats
