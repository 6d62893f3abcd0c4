#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>

#include "io/file.h"

namespace sluice::io {

/// What a format is read from: a file, or bytes in memory.
class ByteSource {
 public:
  explicit ByteSource(File file) : path_(file.path()), file_(std::move(file)) {}
  /// Borrows `bytes`, which messages call `name`.
  ByteSource(std::string_view bytes, std::string_view name) : path_(name), bytes_(bytes) {}

  /// Of the file, or the name of the bytes.
  const std::filesystem::path& path() const { return path_; }
  std::uint64_t size() const { return file_ ? file_->size() : bytes_.size(); }
  /// Fills `bytes` from `offset` on; throws ErrorCode::kIo if there are fewer, and as File.
  void read_at(std::uint64_t offset, std::span<std::byte> bytes) const;

 private:
  std::filesystem::path path_;
  std::optional<File> file_;
  std::string_view bytes_;
};

}  // namespace sluice::io
