#include "io/formats/hdf5/hdf5_messages.h"

#include <algorithm>

#include "base/shape.h"

namespace sluice::io::formats {
namespace {

constexpr std::size_t kMostChunkAxes = 33;  // an axis for the bytes of an element

/// A part of an attribute message, which older versions pad to 8 bytes.
Hdf5Cursor take_part(Hdf5Cursor& cursor, std::size_t bytes, bool is_padded) {
  const std::uint64_t address = cursor.address();
  const std::string_view part = cursor.take(bytes);
  if (is_padded) cursor.skip(base::align_up(bytes, 8) - bytes);
  return {cursor.input(), part, address};
}

std::vector<std::uint64_t> chunk_sizes(Hdf5Cursor& cursor, std::size_t axes, std::size_t bytes) {
  const std::uint64_t address = cursor.address();
  // Without an axis there would be no chunk; the last one is the element.
  if (axes < 2 || axes > kMostChunkAxes || bytes == 0 || bytes > 8) {
    cursor.input().refuse(address, "a chunk has {} axes", axes);
  }
  std::vector<std::uint64_t> sizes;
  for (std::size_t axis = 0; axis < axes; ++axis) {
    sizes.push_back(cursor.number(bytes));
    if (sizes.back() == 0) cursor.input().refuse(address, "a chunk has an axis of size 0");
  }
  sizes.pop_back();
  return sizes;
}

void parse_old_layout(Hdf5Cursor& cursor, Hdf5Layout& layout) {
  const std::size_t axes = cursor.u8();
  layout.kind = static_cast<Hdf5LayoutKind>(cursor.u8());
  cursor.skip(5);
  if (layout.kind != Hdf5LayoutKind::kCompact) layout.address = cursor.u64();
  if (layout.kind == Hdf5LayoutKind::kChunked) {
    layout.chunk = chunk_sizes(cursor, axes, 4);
    return;
  }
  cursor.skip(4 * axes);
  // The size of contiguous data is that of type and shape.
  if (layout.kind == Hdf5LayoutKind::kCompact) layout.content = cursor.take(cursor.u32());
}

/// The indexes of chunks that HDF5 1.10 has added.
void parse_new_chunks(Hdf5Cursor& cursor, Hdf5Layout& layout) {
  constexpr std::uint8_t kSingle = 1, kIsFiltered = 2;
  const std::uint8_t flags = cursor.u8();
  const std::size_t axes = cursor.u8(), bytes = cursor.u8();
  layout.chunk = chunk_sizes(cursor, axes, bytes);
  if (cursor.u8() != kSingle) {
    cursor.input().refuse_feature("chunks with an index of HDF5 1.10 (libver='latest')");
  }
  layout.kind = Hdf5LayoutKind::kSingleChunk;
  if ((flags & kIsFiltered) != 0) {
    layout.bytes = cursor.u64();
    layout.filter_mask = cursor.u32();
  }
  layout.address = cursor.u64();
}

std::string_view take_name(Hdf5Cursor& cursor, std::size_t bytes) {
  const std::string_view name = cursor.take(bytes);
  return name.substr(0, name.find('\0'));
}

}  // namespace

Hdf5Attribute parse_hdf5_attribute(Hdf5Cursor cursor) {
  const std::uint64_t address = cursor.address();
  const std::uint8_t version = cursor.u8(), flags = cursor.u8();
  if (version < 1 || version > 3) {
    cursor.input().refuse(address, "there is no version {} of attributes", version);
  }
  if (version > 1 && flags != 0) cursor.input().refuse_feature("attributes of shared types");
  const std::size_t name_bytes = cursor.u16(), type_bytes = cursor.u16(),
                    space_bytes = cursor.u16();
  if (version == 3) cursor.skip(1);  // ASCII or UTF-8
  const bool is_padded = version == 1;
  Hdf5Attribute attribute;
  Hdf5Cursor name = take_part(cursor, name_bytes, is_padded);
  attribute.name = take_name(name, name_bytes);
  attribute.type = parse_hdf5_type(take_part(cursor, type_bytes, is_padded));
  attribute.space = parse_hdf5_space(take_part(cursor, space_bytes, is_padded));
  attribute.content = cursor.take(cursor.left());
  return attribute;
}

Hdf5Link parse_hdf5_link(Hdf5Cursor cursor) {
  constexpr std::uint8_t kHasOrder = 4, kHasKind = 8, kHasEncoding = 16;
  cursor.expect_version(1, "links");
  const std::uint8_t flags = cursor.u8();
  const std::uint8_t kind = (flags & kHasKind) != 0 ? cursor.u8() : std::uint8_t{0};
  Hdf5Link link;
  if ((flags & kHasOrder) != 0) link.creation_order = cursor.u64();
  if ((flags & kHasEncoding) != 0) cursor.skip(1);
  link.name = cursor.take(cursor.number(std::size_t{1} << (flags & 3)));
  if (kind == 0) {
    link.address = cursor.u64();
  } else {
    link.kind = kind == 1 ? Hdf5LinkKind::kSoft : Hdf5LinkKind::kExternal;
  }
  return link;
}

std::vector<Hdf5Filter> parse_hdf5_filters(Hdf5Cursor cursor) {
  constexpr std::uint16_t kFirstNamed = 256;
  const std::uint64_t address = cursor.address();
  const std::uint8_t version = cursor.u8(), count = cursor.u8();
  if (version != 1 && version != 2) {
    cursor.input().refuse(address, "there is no version {} of filters", version);
  }
  if (version == 1) cursor.skip(6);
  std::vector<Hdf5Filter> filters;
  for (std::uint8_t i = 0; i < count; ++i) {
    Hdf5Filter filter;
    filter.id = cursor.u16();
    const bool has_name = version == 1 || filter.id >= kFirstNamed;
    const std::size_t name_bytes = has_name ? cursor.u16() : 0;
    cursor.skip(2);
    const std::size_t parameters = cursor.u16();
    cursor.skip(version == 1 ? base::align_up(name_bytes, 8) : name_bytes);
    if (parameters > 0) filter.parameter = cursor.u32();
    cursor.skip(4 * (std::max<std::size_t>(parameters, 1) - 1));
    if (version == 1 && parameters % 2 != 0) cursor.skip(4);
    filters.push_back(filter);
  }
  return filters;
}

Hdf5Layout parse_hdf5_layout(Hdf5Cursor cursor) {
  const std::uint64_t address = cursor.address();
  const std::uint8_t version = cursor.u8();
  if (version < 1 || version > 4) {
    cursor.input().refuse(address, "there is no version {} of layouts", version);
  }
  Hdf5Layout layout;
  if (version < 3) {
    parse_old_layout(cursor, layout);
  } else {
    layout.kind = static_cast<Hdf5LayoutKind>(cursor.u8());
    if (layout.kind == Hdf5LayoutKind::kCompact) {
      layout.content = cursor.take(cursor.u16());
    } else if (layout.kind == Hdf5LayoutKind::kContiguous) {
      layout.address = cursor.u64();
      layout.bytes = cursor.u64();
    } else if (layout.kind == Hdf5LayoutKind::kChunked && version == 3) {
      const std::size_t axes = cursor.u8();
      layout.address = cursor.u64();
      layout.chunk = chunk_sizes(cursor, axes, 4);
    } else if (layout.kind == Hdf5LayoutKind::kChunked) {
      parse_new_chunks(cursor, layout);
    } else {
      cursor.input().refuse_feature("a virtual dataset");
    }
  }
  if (layout.kind > Hdf5LayoutKind::kSingleChunk ||
      (version < 3 && layout.kind == Hdf5LayoutKind::kSingleChunk)) {
    cursor.input().refuse(address, "there is no such layout");
  }
  return layout;
}

std::string parse_hdf5_fill_value(Hdf5Cursor cursor) {
  constexpr std::uint8_t kIsDefined = 0x20;
  const std::uint8_t version = cursor.u8();
  bool is_defined = true;
  if (version == 3) {
    is_defined = (cursor.u8() & kIsDefined) != 0;
  } else {
    cursor.skip(2);
    is_defined = cursor.u8() != 0 || version == 1;
  }
  if (!is_defined) return {};
  std::string value(cursor.take(cursor.u32()));
  const bool is_zero = std::all_of(value.begin(), value.end(), [](char c) { return c == 0; });
  return is_zero ? std::string() : value;
}

}  // namespace sluice::io::formats
