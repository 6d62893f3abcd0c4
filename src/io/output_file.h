#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>

#include "io/file.h"

namespace sluice::io {

/// The file that a user named to write answers to. What a link leads to is written in its place,
/// whether it is there yet or not, and the link stays; a device or a pipe is written straight;
/// anything else is a DurableFile, of which nothing stays without commit().
class OutputFile {
 public:
  /// Opening a pipe waits for its reader.
  explicit OutputFile(const std::filesystem::path& path);

  void write(std::span<const std::byte> bytes);
  void commit();

 private:
  std::optional<File> special_;
  std::optional<DurableFile> durable_;
};

/// Throws what an OutputFile would that is made, without waiting for the reader of a pipe. Leaves
/// what is there.
void require_writable(const std::filesystem::path& path);

/// Whether two OutputFiles of these names would be one file, there or not.
bool is_same_output(const std::filesystem::path& one, const std::filesystem::path& other);

}  // namespace sluice::io
