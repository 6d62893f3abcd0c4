#include "io/zip_archive.h"

#include <zlib.h>

#include <algorithm>
#include <fstream>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "io/little_endian.h"

namespace sluice::io {
namespace {

// Signatures and lengths of the format's records.
constexpr std::uint32_t kLocalHeader = 0x04034b50, kDirectoryEntry = 0x02014b50;
constexpr std::uint32_t kDirectoryEnd = 0x06054b50, kDirectoryEnd64 = 0x06064b50;
constexpr std::uint32_t kDirectoryLocator64 = 0x07064b50;
constexpr std::size_t kLocalHeaderBytes = 30, kDirectoryEntryBytes = 46, kDirectoryEndBytes = 22;
constexpr std::size_t kDirectoryEnd64Bytes = 56, kLocatorBytes = 20, kLongestComment = 65535;
constexpr std::uint16_t kZip64Field = 1;
constexpr std::uint32_t kInZip64 = 0xffffffff;
/// A directory of more is no collection of arrays.
constexpr std::uint64_t kLargestDirectory = std::uint64_t{256} << 20;

/// Little-endian numbers from bytes that are all there.
std::uint64_t number_at(std::string_view bytes, std::size_t at, std::size_t size) {
  return little_endian(bytes.substr(at, size));
}
std::uint32_t u32(std::string_view bytes, std::size_t at) {
  return static_cast<std::uint32_t>(number_at(bytes, at, 4));
}
std::uint16_t u16(std::string_view bytes, std::size_t at) {
  return static_cast<std::uint16_t>(number_at(bytes, at, 2));
}

}  // namespace

class ZipArchive::Impl {
 public:
  explicit Impl(std::filesystem::path path) : path_(std::move(path)) {
    std::error_code error;
    if (!std::filesystem::exists(path_, error)) {
      base::fail(ErrorCode::kNotFound, "there is no file '{}'", path_.string());
    }
    file_.open(path_, std::ios::binary);
    size_ = std::filesystem::file_size(path_, error);
    if (!file_ || error) base::fail(ErrorCode::kIo, "cannot open '{}'", path_.string());
    read_directory();
  }
  ~Impl() { close_member(); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  const std::vector<Member>& members() const { return members_; }

  void open(const Member& member) {
    close_member();
    member_ = member;
    const std::string header = bytes_at(member.header_offset, kLocalHeaderBytes);
    if (u32(header, 0) != kLocalHeader) refuse();
    next_ = member.header_offset + kLocalHeaderBytes + u16(header, 26) + u16(header, 28);
    packed_left_ = member.packed_bytes;
    if (next_ > size_ || packed_left_ > size_ - next_) refuse();
    given_ = 0;
    checksum_ = static_cast<std::uint32_t>(crc32(0, nullptr, 0));
    if (!member.is_deflated) return;
    stream_ = {};
    inflating_ = inflateInit2(&stream_, -MAX_WBITS) == Z_OK;
    if (!inflating_) base::fail(ErrorCode::kOutOfMemory, "cannot unpack '{}'", path_.string());
  }

  std::size_t read(std::span<char> out) {
    out = out.first(std::min<std::size_t>(out.size(), std::size_t{1} << 30));  // zlib counts in int
    const std::size_t got = inflating_ ? unpack(out) : copy(out);
    checksum_ = static_cast<std::uint32_t>(
        crc32(checksum_, reinterpret_cast<const Bytef*>(out.data()), static_cast<uInt>(got)));
    given_ += got;
    if (given_ > member_.bytes) refuse();
    if (got == 0 && (given_ != member_.bytes || checksum_ != member_.checksum)) refuse();
    return got;
  }

 private:
  [[noreturn]] void refuse() const {
    base::fail(ErrorCode::kFormat, "'{}' member '{}' is damaged", path_.string(),
               member_.name.substr(0, 200));
  }
  [[noreturn]] void refuse_archive() const {
    base::fail(ErrorCode::kFormat, "'{}' is not a zip file, or is damaged", path_.string());
  }

  void read_at(std::uint64_t offset, std::span<char> out) {
    file_.clear();
    file_.seekg(static_cast<std::streamoff>(offset));
    file_.read(out.data(), static_cast<std::streamsize>(out.size()));
    if (!file_) base::fail(ErrorCode::kIo, "cannot read '{}'", path_.string());
  }
  std::string bytes_at(std::uint64_t offset, std::size_t count) {
    if (offset > size_ || count > size_ - offset) refuse_archive();
    std::string bytes(count, '\0');
    read_at(offset, bytes);
    return bytes;
  }

  void read_directory() {
    const auto tail_bytes = static_cast<std::size_t>(
        std::min<std::uint64_t>(size_, kDirectoryEndBytes + kLongestComment));
    if (tail_bytes < kDirectoryEndBytes) refuse_archive();
    const std::string tail = bytes_at(size_ - tail_bytes, tail_bytes);
    std::size_t at = tail_bytes - kDirectoryEndBytes;
    while (u32(tail, at) != kDirectoryEnd) {
      if (at-- == 0) refuse_archive();
    }
    std::uint64_t count = u16(tail, at + 10), bytes = u32(tail, at + 12),
                  offset = u32(tail, at + 16);
    if (count == 0xffff || bytes == kInZip64 || offset == kInZip64) {
      const std::uint64_t end = size_ - tail_bytes + at;
      if (end < kLocatorBytes) refuse_archive();
      const std::string locator = bytes_at(end - kLocatorBytes, kLocatorBytes);
      if (u32(locator, 0) != kDirectoryLocator64) refuse_archive();
      const std::string end64 = bytes_at(number_at(locator, 8, 8), kDirectoryEnd64Bytes);
      if (u32(end64, 0) != kDirectoryEnd64) refuse_archive();
      count = number_at(end64, 32, 8);
      bytes = number_at(end64, 40, 8);
      offset = number_at(end64, 48, 8);
    }
    if (bytes > kLargestDirectory || count > bytes / kDirectoryEntryBytes) refuse_archive();
    const std::string directory = bytes_at(offset, static_cast<std::size_t>(bytes));
    std::size_t next = 0;
    for (std::uint64_t i = 0; i < count; ++i) next = read_entry(directory, next);
  }

  /// Returns where the next begins.
  std::size_t read_entry(std::string_view directory, std::size_t at) {
    if (directory.size() - at < kDirectoryEntryBytes || u32(directory, at) != kDirectoryEntry) {
      refuse_archive();
    }
    const std::string_view entry = directory.substr(at);
    const std::size_t name_bytes = u16(entry, 28), extra_bytes = u16(entry, 30);
    const std::size_t total = kDirectoryEntryBytes + name_bytes + extra_bytes + u16(entry, 32);
    if (total > entry.size()) refuse_archive();
    Member member;
    member.name = entry.substr(kDirectoryEntryBytes, name_bytes);
    member.checksum = u32(entry, 16);
    member.packed_bytes = u32(entry, 20);
    member.bytes = u32(entry, 24);
    member.header_offset = u32(entry, 42);
    read_zip64(entry.substr(kDirectoryEntryBytes + name_bytes, extra_bytes), member);
    const std::uint16_t flags = u16(entry, 8), method = u16(entry, 10);
    if ((flags & 1) != 0 || (method != 0 && method != 8)) {
      base::fail(ErrorCode::kFormat,
                 "'{}' member '{}' is encrypted or packed in a way that numpy doesn't use",
                 path_.string(), member.name.substr(0, 200));
    }
    member.is_deflated = method == 8;
    members_.push_back(std::move(member));
    return at + total;
  }

  /// Numbers of 64 bits stand in an extra field, those that need it in this order.
  void read_zip64(std::string_view extra, Member& member) const {
    while (extra.size() >= 4) {
      const std::size_t bytes = u16(extra, 2);
      if (bytes > extra.size() - 4) refuse_archive();
      if (u16(extra, 0) == kZip64Field) {
        std::string_view field = extra.substr(4, bytes);
        for (std::uint64_t* number : {&member.bytes, &member.packed_bytes, &member.header_offset}) {
          if (*number != kInZip64) continue;
          if (field.size() < 8) refuse_archive();
          *number = number_at(field, 0, 8);
          field.remove_prefix(8);
        }
      }
      extra.remove_prefix(4 + bytes);
    }
  }

  std::size_t copy(std::span<char> out) {
    const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(out.size(), packed_left_));
    if (count == 0) return 0;
    read_at(next_, out.first(count));
    next_ += count;
    packed_left_ -= count;
    return count;
  }

  std::size_t unpack(std::span<char> out) {
    stream_.next_out = reinterpret_cast<Bytef*>(out.data());
    stream_.avail_out = static_cast<uInt>(out.size());
    while (stream_.avail_out > 0) {
      if (stream_.avail_in == 0) {
        const std::size_t got = copy(packed_);
        stream_.next_in = reinterpret_cast<Bytef*>(packed_.data());
        stream_.avail_in = static_cast<uInt>(got);
      }
      const int result = inflate(&stream_, Z_NO_FLUSH);
      if (result == Z_STREAM_END) break;
      if (result != Z_OK) refuse();
    }
    return out.size() - stream_.avail_out;
  }

  void close_member() {
    if (std::exchange(inflating_, false)) inflateEnd(&stream_);
  }

  std::filesystem::path path_;
  std::ifstream file_;
  std::uint64_t size_ = 0;
  std::vector<Member> members_;
  // Of the open member.
  Member member_;
  std::uint64_t next_ = 0, packed_left_ = 0, given_ = 0;
  std::uint32_t checksum_ = 0;
  bool inflating_ = false;
  z_stream stream_{};
  std::vector<char> packed_ = std::vector<char>(std::size_t{64} << 10);
};

ZipArchive::ZipArchive(std::filesystem::path path)
    : impl_(std::make_unique<Impl>(std::move(path))) {}
ZipArchive::~ZipArchive() = default;
ZipArchive::ZipArchive(ZipArchive&&) noexcept = default;

const std::vector<ZipArchive::Member>& ZipArchive::members() const { return impl_->members(); }
void ZipArchive::open(const Member& member) { impl_->open(member); }
std::size_t ZipArchive::read(std::span<char> out) { return impl_->read(out); }

}  // namespace sluice::io
