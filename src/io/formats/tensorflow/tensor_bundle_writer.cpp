#include "io/formats/tensorflow/tensor_bundle_writer.h"

#include <protozero/pbf_writer.hpp>
#include <utility>

#include "base/check.h"
#include "io/crc32c.h"
#include "io/formats/tensorflow/sorted_table.h"
#include "io/formats/tensorflow/tensorflow_types.h"
#include "io/output_file.h"
#include "io/safetensors_header.h"

namespace sluice::io::formats {
namespace {

constexpr std::int32_t kString = 7;  // DT_STRING

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string header() {
  std::string bytes;
  protozero::pbf_writer writer(bytes);
  writer.add_int32(1, 1);  // data files
  protozero::pbf_writer version(writer, 3);
  version.add_int32(1, 1);
  return bytes;
}

}  // namespace

void TensorBundleWriter::add_item(std::string name, Item item) {
  SLUICE_CHECK(!name.empty() && !name.starts_with('\0'),
               "a variable of a checkpoint needs a name that begins with a character");
  const auto [place, is_new] = items_.emplace(std::move(name), std::move(item));
  SLUICE_CHECK(is_new, "variable {} is added twice", quote_name(place->first));
}

void TensorBundleWriter::add(std::string name, DType dtype, const Shape& shape,
                             std::span<const std::byte> data) {
  const std::size_t bytes =
      base::checked_mul(static_cast<std::size_t>(shape.element_count()), base::size_of(dtype));
  SLUICE_CHECK(data.size() == bytes, "variable {} of shape {} has {} bytes of data instead of {}",
               quote_name(name), shape.to_string(), data.size(), bytes);
  add_item(std::move(name),
           {tensorflow_type_of(dtype), shape, data, {}, masked_crc32c(text_of(data))});
}

/// The length as a varint, the masked checksum of the length as a 32-bit number, the string.
void TensorBundleWriter::add_string(std::string name, std::string_view value) {
  SLUICE_CHECK(value.size() <= UINT32_MAX, "variable {} is a string of {} bytes, which is too long",
               quote_name(name), value.size());
  const auto length = static_cast<std::uint32_t>(value.size());
  std::string summed(text_of(std::as_bytes(std::span(&length, 1))));
  const std::uint32_t sum = masked_crc32c(summed);
  summed += text_of(std::as_bytes(std::span(&sum, 1)));
  summed += value;
  std::string bytes;
  protozero::add_varint_to_buffer(&bytes, value.size());
  bytes += std::string_view(summed).substr(sizeof(length));
  add_item(std::move(name), {kString, {}, {}, std::move(bytes), masked_crc32c(summed)});
}

std::string TensorBundleWriter::index() const {
  SortedTableWriter table;
  table.add("", header());
  std::uint64_t offset = 0;
  for (const auto& [name, item] : items_) {
    std::string entry;
    protozero::pbf_writer writer(entry);
    writer.add_enum(1, item.type);
    write_tensorflow_shape(writer, 2, {true, {item.shape.begin(), item.shape.end()}});
    writer.add_int64(4, static_cast<std::int64_t>(offset));
    writer.add_int64(5, static_cast<std::int64_t>(item.bytes().size()));
    writer.add_fixed32(6, item.checksum);
    table.add(name, entry);
    offset += item.bytes().size();
  }
  return table.finish();
}

void TensorBundleWriter::write(const std::filesystem::path& prefix) const {
  OutputFile data(prefix.native() + ".data-00000-of-00001");
  for (const auto& [name, item] : items_) data.write(item.bytes());
  data.commit();
  const std::string bytes = index();
  OutputFile index_file(prefix.native() + ".index");
  index_file.write(std::as_bytes(std::span(bytes)));
  index_file.commit();
}

}  // namespace sluice::io::formats
