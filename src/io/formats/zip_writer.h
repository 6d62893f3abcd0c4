#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/output_file.h"

namespace sluice::io::formats {

/// Writes a zip file of stored (not deflated) members, as PyTorch, Keras and NumPy read them. Each
/// member's content begins at a multiple of 64 bytes. The file's bytes follow from the calls alone;
/// nothing stays without finish(). Sizes beyond 4 GiB use zip64. Throws as OutputFile.
class ZipWriter {
 public:
  explicit ZipWriter(const std::filesystem::path& path) : file_(path), path_(path) {}

  /// Writes a member. `name` has forward slashes and at most 65535 bytes. A second member of the
  /// same name is refused (ErrorCode::kInvalidArgument).
  void add(std::string_view name, std::span<const std::byte> content);
  void add(std::string_view name, std::string_view content) {
    add(name, std::as_bytes(std::span(content)));
  }
  /// Writes the directory and puts the file in place.
  void finish();

 private:
  struct Member {
    std::string name;
    std::uint64_t offset;
    std::uint64_t bytes;
    std::uint32_t checksum;
  };

  void put(std::string_view bytes);
  void put_end(std::uint64_t directory_at);

  OutputFile file_;
  std::filesystem::path path_;
  std::uint64_t at_ = 0;
  std::vector<Member> members_;
};

}  // namespace sluice::io::formats
