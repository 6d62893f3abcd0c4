#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>

namespace sluice::io {

/// A file read from front to back, unpacked on the way if its first two bytes are gzip's; the name
/// does not matter, but for "-", which is standard input. Several gzip members one after the other
/// are one text.
class TextFile {
 public:
  /// Throws ErrorCode::kNotFound if the file is missing, ErrorCode::kIo if it is a directory or
  /// cannot be opened.
  explicit TextFile(std::filesystem::path path);
  ~TextFile();
  TextFile(TextFile&&) noexcept;
  TextFile& operator=(TextFile&&) noexcept;

  /// Fills `out` as far as the text goes and returns the number of bytes; 0 is the end. Throws
  /// ErrorCode::kFormat on a damaged or truncated gzip stream, ErrorCode::kIo on a failed read.
  std::size_t read(std::span<char> out);

  const std::filesystem::path& path() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice::io
