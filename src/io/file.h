#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace sluice::io {

/// An open file descriptor. Every failing call throws one sentence with the path and the system's
/// reason: ErrorCode::kNotFound if the file is not there, else ErrorCode::kIo.
class File {
 public:
  /// A regular file, to read. Anything else (a folder, a pipe, a device) is refused.
  static File open(const std::filesystem::path& path);
  /// Opens or creates `path` to write, with the content it has.
  static File open_to_write(const std::filesystem::path& path);
  /// A file or folder that is only to be synced or locked.
  static File open_any(const std::filesystem::path& path);

  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  ~File();

  const std::filesystem::path& path() const { return path_; }
  int descriptor() const { return descriptor_; }

  std::uint64_t size() const;
  /// Fills `bytes` from `offset` on; throws if the file ends before.
  void read_at(std::uint64_t offset, std::span<std::byte> bytes) const;
  /// Writes all of `bytes` at the current position.
  void write(std::span<const std::byte> bytes);
  void truncate();
  /// Returns when the content is on the disk.
  void sync();
  /// Closes and reports what the destructor would have to keep quiet about.
  void close();

 private:
  File(int descriptor, std::filesystem::path path);

  int descriptor_ = -1;
  std::filesystem::path path_;
};

/// Syncs the folder itself, so that names made, moved or removed in it stay so.
void sync_directory(const std::filesystem::path& path);

/// A file that appears under `path` whole or not at all: written to `<path>.sluice-tmp`, synced and
/// renamed by `commit`; the destructor removes what was not committed. A killed writer leaves only
/// the `.sluice-tmp` file behind, and the next writer of the path takes it over. Two writers of one
/// path at a time: the second is refused.
class DurableFile {
 public:
  explicit DurableFile(std::filesystem::path path);
  DurableFile(const DurableFile&) = delete;
  DurableFile& operator=(const DurableFile&) = delete;
  ~DurableFile();

  void write(std::span<const std::byte> bytes) { aside_.write(bytes); }
  void commit();

 private:
  std::filesystem::path path_;
  File aside_;
  bool committed_ = false;
};

/// Writes `content` through a DurableFile.
void write_file_durably(const std::filesystem::path& path, std::string_view content);

/// The whole content of a file of at most `max_bytes` bytes (pipes and devices are read to their
/// end). A larger one is refused (ErrorCode::kFormat) with both numbers.
std::string read_file(const std::filesystem::path& path, std::uint64_t max_bytes);

}  // namespace sluice::io
