#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace sluice::io {

/// The members of a zip file, stored or deflated, as numpy.savez and savez_compressed write them
/// (zip64 included). Throws ErrorCode::kNotFound or kIo if the file can't be opened, ErrorCode::
/// kFormat with one sentence that names file and member if it is damaged or encrypted. What the
/// file says of itself is checked against its size before memory is taken.
class ZipArchive {
 public:
  struct Member {
    std::string name;
    std::uint64_t header_offset = 0;
    std::uint64_t packed_bytes = 0;
    std::uint64_t bytes = 0;
    std::uint32_t checksum = 0;  ///< CRC-32
    bool is_deflated = false;
  };

  explicit ZipArchive(std::filesystem::path path);
  ~ZipArchive();
  ZipArchive(ZipArchive&&) noexcept;

  /// In the order of the directory, which is that of writing.
  const std::vector<Member>& members() const;
  /// Begins with a member.
  void open(const Member& member);
  /// Fills `out` as far as the open member goes and returns the number of bytes; 0 is its end,
  /// where size and checksum are compared.
  std::size_t read(std::span<char> out);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice::io
