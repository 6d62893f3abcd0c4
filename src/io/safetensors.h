#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/byte_source.h"
#include "io/host_tensor.h"
#include "io/safetensors_header.h"

namespace sluice::io {

/// What is in the safetensors format, an open file or bytes in memory: 8 bytes of header length N
/// (little-endian), N bytes of JSON, then the tensors' data, row-major and little-endian. Opening
/// checks everything that can be checked without reading data; no memory is taken before the number
/// asking for it is checked against the file's size. Refusals are ErrorCode::kFormat and name file,
/// tensor and number.
class SafetensorsFile {
 public:
  static SafetensorsFile open(const std::filesystem::path& path);
  static SafetensorsFile open(ByteSource source);

  /// In the order of their data.
  const std::vector<SafetensorsEntry>& tensors() const { return header_.tensors; }
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }
  const std::filesystem::path& path() const { return source_.path(); }

  /// Null if there is none of that name.
  const SafetensorsEntry* find(std::string_view name) const;

  /// Reads a tensor's bytes into `bytes`, which must have just its size. Throws
  /// ErrorCode::kNotFound, or kUnsupported for a dtype or a rank that Sluice does not have.
  void read(std::string_view name, std::span<std::byte> bytes) const;
  /// Reads a part of a tensor's bytes, from byte `offset` of it on; throws as the other, and
  /// ErrorCode::kInvalidArgument for what the tensor does not have.
  void read_part(const SafetensorsEntry& entry, std::uint64_t offset,
                 std::span<std::byte> bytes) const;
  /// Reads a tensor into memory of its own.
  HostTensor read(std::string_view name) const;

 private:
  SafetensorsFile(ByteSource source, SafetensorsHeader header, std::uint64_t data_begin);

  const SafetensorsEntry& readable(std::string_view name) const;
  void read_entry(const SafetensorsEntry& entry, std::span<std::byte> bytes) const;

  ByteSource source_;
  SafetensorsHeader header_;
  std::uint64_t data_begin_;
  std::map<std::string_view, std::size_t> index_;
};

/// Collects tensors and writes them as one file. The file's bytes follow from the calls alone.
class SafetensorsWriter {
 public:
  /// Borrows `data`, which must live and stay unchanged until the last write(). Refuses a second
  /// tensor of the same name and data of another size than dtype and shape say.
  void add(std::string name, DType dtype, const Shape& shape, std::span<const std::byte> data);
  void set_metadata(std::string key, std::string value);

  /// Writes aside, syncs and renames (OutputFile): what was at `path` before stays until the new
  /// file is whole. Data is laid out from the widest dtype to the narrowest, in the order of add()
  /// within one width, so that every tensor is aligned for readers that map the file.
  void write(const std::filesystem::path& path) const;
  /// The bytes of that file.
  std::string bytes() const;

 private:
  /// Gives the file's bytes to `put`, a stretch after the other.
  void emit(const std::function<void(std::span<const std::byte>)>& put) const;

  struct Item {
    SafetensorsEntry entry;
    std::size_t element_size;
    std::span<const std::byte> data;
  };

  std::vector<Item> items_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace sluice::io
