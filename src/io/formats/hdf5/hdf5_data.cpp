#include "io/formats/hdf5/hdf5_data.h"

#include <algorithm>
#include <cstring>

#include "io/formats/hdf5/hdf5_chunks.h"
#include "io/formats/hdf5/hdf5_filters.h"

namespace sluice::io::formats {
namespace {

constexpr std::uint64_t kExpansion = 16, kLeastLimit = 1 << 20;

Hdf5Cursor cursor_of(const Hdf5Input& input, const Hdf5Object::Message& message) {
  return {input, message.content, message.address};
}

void fill(std::span<std::byte> elements, std::string_view value) {
  for (std::size_t at = 0; at < elements.size(); at += value.size()) {
    std::memcpy(elements.data() + at, value.data(), value.size());
  }
}

void require_bytes(const Hdf5Input& input, const Hdf5Dataset& dataset, std::uint64_t held,
                   std::uint64_t needed) {
  if (held == needed) return;
  input.refuse(dataset.layout.address, "a dataset has {} bytes, but its type and shape ask for {}",
               held, needed);
}

std::string trimmed(std::string_view text, Hdf5Padding padding) {
  if (padding == Hdf5Padding::kZeroEnd) return std::string(text.substr(0, text.find('\0')));
  const char filler = padding == Hdf5Padding::kSpaces ? ' ' : '\0';
  return std::string(text.substr(0, text.find_last_not_of(filler) + 1));
}

std::vector<std::string> texts_of(Hdf5Input& input, const Hdf5Type& type, std::string_view bytes) {
  // An empty text takes 32 bytes of memory, but perhaps 1 of the file.
  const std::size_t count = bytes.size() / type.bytes;
  if (count > 2 * input.size() + 32768) {
    input.refuse(0, "a value of {} texts is far more than the file holds", count);
  }
  std::vector<std::string> texts;
  texts.reserve(count);
  Hdf5GlobalHeap heap(input);
  for (std::size_t at = 0; at < bytes.size(); at += type.bytes) {
    const std::string_view element = bytes.substr(at, type.bytes);
    if (type.kind == Hdf5TypeKind::kFixedText) {
      texts.push_back(trimmed(element, type.padding));
    } else {
      texts.emplace_back(heap.text(Hdf5Cursor(input, element, 0)));
    }
  }
  return texts;
}

}  // namespace

std::string hdf5_type_name(const Hdf5Type& type) {
  switch (type.kind) {
    case Hdf5TypeKind::kNumber:
      return name_of(type.number);
    case Hdf5TypeKind::kFixedText:
    case Hdf5TypeKind::kVariableText:
      return "text";
    default:
      return type.other;
  }
}

Hdf5Dataset parse_hdf5_dataset(Hdf5Input& input, const Hdf5Object& object) {
  const auto* space = object.find(Hdf5MessageType::kDataspace);
  const auto* type = object.find(Hdf5MessageType::kDatatype);
  const auto* layout = object.find(Hdf5MessageType::kLayout);
  if (space == nullptr || type == nullptr || layout == nullptr) {
    input.refuse(object.address(), "a dataset lacks its shape, type or layout");
  }
  if (object.find(Hdf5MessageType::kExternalFiles) != nullptr) {
    input.refuse_feature("a dataset whose elements are in other files");
  }
  Hdf5Dataset dataset;
  dataset.space = parse_hdf5_space(cursor_of(input, *space));
  dataset.type = parse_hdf5_type(cursor_of(input, *type));
  dataset.layout = parse_hdf5_layout(cursor_of(input, *layout));
  if (const auto* filters = object.find(Hdf5MessageType::kFilters)) {
    dataset.filters = parse_hdf5_filters(cursor_of(input, *filters));
  }
  if (const auto* value = object.find(Hdf5MessageType::kFillValue)) {
    dataset.fill_value = parse_hdf5_fill_value(cursor_of(input, *value));
  }
  return dataset;
}

std::vector<std::byte> read_hdf5_elements(Hdf5Input& input, const Hdf5Dataset& dataset,
                                          std::string_view where) {
  if (dataset.space.is_null) return {};
  const std::uint64_t limit = kExpansion * input.size() + kLeastLimit;
  const auto bytes = bytes_of(dataset.space.sizes, dataset.type.bytes);
  if (!bytes || *bytes > limit) {
    base::fail(ErrorCode::kFormat,
               "{}: its type and shape ask for more than {} bytes, far more than the file holds",
               where, limit);
  }
  require_hdf5_filters(dataset.filters, where);
  const Hdf5Layout& layout = dataset.layout;
  if (layout.kind == Hdf5LayoutKind::kCompact) {
    // Old versions pad it.
    if (layout.content.size() < *bytes)
      require_bytes(input, dataset, layout.content.size(), *bytes);
    const auto content = std::as_bytes(std::span(layout.content));
    return {content.begin(), content.begin() + static_cast<std::ptrdiff_t>(*bytes)};
  }
  const bool is_written = layout.address != kHdf5Nowhere;
  if (is_written && layout.kind == Hdf5LayoutKind::kContiguous && *bytes > input.size()) {
    require_bytes(input, dataset, input.size(), *bytes);
  }
  std::vector<std::byte> elements(static_cast<std::size_t>(*bytes));
  if (!dataset.fill_value.empty()) {
    require_bytes(input, dataset, dataset.fill_value.size(), dataset.type.bytes);
    fill(elements, dataset.fill_value);
  }
  if (layout.kind != Hdf5LayoutKind::kContiguous) {
    read_hdf5_chunks(input, dataset, limit, elements, where);
  } else if (is_written) {
    input.read(layout.address, elements);
  }
  return elements;
}

Hdf5Value hdf5_value(Hdf5Input& input, const Hdf5Type& type, const Hdf5Space& space,
                     std::span<const std::byte> elements, std::string_view where) {
  Hdf5Value value{space.sizes, hdf5_type_name(type), {}};
  if (space.is_null) value.sizes = {0};
  const auto bytes = bytes_of(value.sizes, type.bytes);
  if (!bytes || *bytes > elements.size()) {
    base::fail(ErrorCode::kFormat, "{} is damaged: it has {} bytes, too few for its type and shape",
               where, elements.size());
  }
  elements = elements.first(static_cast<std::size_t>(*bytes));
  switch (type.kind) {
    case Hdf5TypeKind::kNumber:
      value.content = tensor_of(type.number, value.sizes, elements, where);
      break;
    case Hdf5TypeKind::kFixedText:
    case Hdf5TypeKind::kVariableText:
      value.content =
          texts_of(input, type, {reinterpret_cast<const char*>(elements.data()), elements.size()});
      break;
    default:
      base::fail(ErrorCode::kUnsupported, "{} has {}, which is not read", where,
                 hdf5_type_name(type));
  }
  return value;
}

}  // namespace sluice::io::formats
