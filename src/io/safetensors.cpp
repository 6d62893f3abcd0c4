#include "io/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/suggest.h"
#include "io/output_file.h"

namespace sluice::io {
namespace {

using base::fail;

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr std::uint64_t kPrefix = sizeof(std::uint64_t);

std::uint64_t checked_header_length(const ByteSource& source, std::uint64_t file_size) {
  const std::string& name = source.path().native();
  if (file_size < kPrefix) {
    fail(ErrorCode::kFormat, "'{}': {} bytes are too short for a safetensors file", name,
         file_size);
  }
  std::uint64_t length = 0;
  source.read_at(0, std::as_writable_bytes(std::span(&length, 1)));
  if (length > kLongestSafetensorsHeader) {
    fail(ErrorCode::kFormat,
         "'{}': the header states a length of {} bytes; at most {} are allowed (is this a "
         "safetensors file?)",
         name, length, kLongestSafetensorsHeader);
  }
  if (length > file_size - kPrefix) {
    fail(ErrorCode::kFormat, "'{}': the header states a length of {} bytes, but only {} follow",
         name, length, file_size - kPrefix);
  }
  return length;
}

}  // namespace

SafetensorsFile::SafetensorsFile(ByteSource source, SafetensorsHeader header,
                                 std::uint64_t data_begin)
    : source_(std::move(source)), header_(std::move(header)), data_begin_(data_begin) {
  for (std::size_t i = 0; i < header_.tensors.size(); ++i) {
    index_.emplace(header_.tensors[i].name, i);
  }
}

SafetensorsFile SafetensorsFile::open(const std::filesystem::path& path) {
  return open(ByteSource(File::open(path)));
}

SafetensorsFile SafetensorsFile::open(ByteSource source) {
  const std::uint64_t size = source.size();
  const std::uint64_t length = checked_header_length(source, size);
  std::string json(static_cast<std::size_t>(length), '\0');
  source.read_at(kPrefix, std::as_writable_bytes(std::span(json)));
  SafetensorsHeader header =
      parse_safetensors_header(source.path().native(), json, size - kPrefix - length);
  return SafetensorsFile(std::move(source), std::move(header), kPrefix + length);
}

const SafetensorsEntry* SafetensorsFile::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &header_.tensors[found->second];
}

const SafetensorsEntry& SafetensorsFile::readable(std::string_view name) const {
  const SafetensorsEntry* entry = find(name);
  if (entry == nullptr) {
    std::vector<std::string_view> known;
    for (const SafetensorsEntry& other : header_.tensors) known.push_back(other.name);
    fail(ErrorCode::kNotFound, "'{}' has no tensor {}{}", path().native(), quote_name(name),
         base::did_you_mean(name, known));
  }
  if (!entry->dtype) {
    fail(ErrorCode::kUnsupported, "'{}': tensor {} has the dtype {}, which Sluice does not read",
         path().native(), quote_name(name), entry->dtype_name);
  }
  return *entry;
}

void SafetensorsFile::read_entry(const SafetensorsEntry& entry, std::span<std::byte> bytes) const {
  source_.read_at(data_begin_ + entry.begin, bytes);
}

void SafetensorsFile::read(std::string_view name, std::span<std::byte> bytes) const {
  const SafetensorsEntry& entry = readable(name);
  SLUICE_CHECK(bytes.size() == entry.byte_size(),
               "'{}': tensor {} has {} bytes and does not fit a buffer of {}", path().native(),
               quote_name(name), entry.byte_size(), bytes.size());
  read_entry(entry, bytes);
}

void SafetensorsFile::read_part(const SafetensorsEntry& entry, std::uint64_t offset,
                                std::span<std::byte> bytes) const {
  SLUICE_CHECK(base::checked_add(offset, bytes.size()) <= entry.byte_size(),
               "'{}': tensor {} has {} bytes; {} from byte {} on are more", path().native(),
               quote_name(entry.name), entry.byte_size(), bytes.size(), offset);
  source_.read_at(data_begin_ + entry.begin + offset, bytes);
}

HostTensor SafetensorsFile::read(std::string_view name) const {
  const SafetensorsEntry& entry = readable(name);
  if (entry.sizes.size() > Shape::kMaxRank) {
    fail(ErrorCode::kUnsupported, "'{}': tensor {} has {} axes; at most {} are read",
         path().native(), quote_name(name), entry.sizes.size(), Shape::kMaxRank);
  }
  HostTensor tensor = HostTensor::make(*entry.dtype, Shape(entry.sizes));
  read_entry(entry, tensor.data);
  return tensor;
}

void SafetensorsWriter::add(std::string name, DType dtype, const Shape& shape,
                            std::span<const std::byte> data) {
  SLUICE_CHECK(name != "__metadata__", "a tensor cannot be named '{}'", name);
  for (const Item& item : items_) {
    SLUICE_CHECK(item.entry.name != name, "tensor {} is added twice", quote_name(name));
  }
  const std::size_t element_size = base::size_of(dtype);
  const std::size_t bytes =
      base::checked_mul(static_cast<std::size_t>(shape.element_count()), element_size);
  SLUICE_CHECK(data.size() == bytes, "tensor {} of shape {} has {} bytes of data instead of {}",
               quote_name(name), shape.to_string(), data.size(), bytes);
  SafetensorsEntry entry;
  entry.name = std::move(name);
  entry.dtype_name = safetensors_name(dtype);
  entry.dtype = dtype;
  entry.sizes.assign(shape.begin(), shape.end());
  items_.push_back({std::move(entry), element_size, data});
}

void SafetensorsWriter::set_metadata(std::string key, std::string value) {
  metadata_[std::move(key)] = std::move(value);
}

void SafetensorsWriter::emit(const std::function<void(std::span<const std::byte>)>& put) const {
  std::vector<Item> items = items_;
  std::stable_sort(items.begin(), items.end(),
                   [](const Item& a, const Item& b) { return a.element_size > b.element_size; });
  SafetensorsHeader header{{}, metadata_};
  std::uint64_t end = 0;
  for (Item& item : items) {
    item.entry.begin = end;
    item.entry.end = end = base::checked_add(end, item.data.size());
    header.tensors.push_back(std::move(item.entry));
  }
  const std::string json = format_safetensors_header(header);
  const std::uint64_t length = json.size();
  SLUICE_CHECK(length <= kLongestSafetensorsHeader,
               "a header of {} bytes is longer than the format's {}", length,
               kLongestSafetensorsHeader);

  put(std::as_bytes(std::span(&length, 1)));
  put(std::as_bytes(std::span(json)));
  for (const Item& item : items) put(item.data);
}

void SafetensorsWriter::write(const std::filesystem::path& path) const {
  OutputFile file(path);
  emit([&](std::span<const std::byte> bytes) { file.write(bytes); });
  file.commit();
}

std::string SafetensorsWriter::bytes() const {
  std::string all;
  emit([&](std::span<const std::byte> bytes) {
    all.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  });
  return all;
}

}  // namespace sluice::io
