// Types and shapes of HDF5 files.
#include <algorithm>
#include <limits>

#include "base/shape.h"
#include "io/formats/hdf5/hdf5_messages.h"

namespace sluice::io::formats {
namespace {

constexpr std::size_t kMostAxes = 32;
constexpr int kMostLevels = 4;

enum TypeClass : std::uint8_t {
  kInteger = 0,
  kFloat = 1,
  kText = 3,
  kOpaqueClass = 5,
  kEnum = 8,
  kVariable = 9
};

struct FloatForm {
  std::uint32_t bits;
  std::uint8_t sign, exponent_at, exponent_bits, mantissa_bits;
  std::uint32_t bias;
  NumberKind kind;
};

constexpr FloatForm kFloats[] = {
    {16, 15, 10, 5, 10, 15, NumberKind::kFloat},
    {32, 31, 23, 8, 23, 127, NumberKind::kFloat},
    {64, 63, 52, 11, 52, 1023, NumberKind::kFloat},
    {16, 15, 7, 8, 7, 127, NumberKind::kBFloat16},
};

Hdf5Type other(std::uint32_t bytes, std::string what) {
  Hdf5Type type;
  type.bytes = bytes;
  type.other = std::move(what);
  return type;
}

Hdf5Type number(const std::optional<NumberType>& form, std::uint32_t bytes, std::string_view what) {
  if (!form) return other(bytes, std::string(what));
  Hdf5Type type;
  type.kind = Hdf5TypeKind::kNumber;
  type.bytes = bytes;
  type.number = *form;
  return type;
}

Hdf5Type parse_integer(Hdf5Cursor& cursor, std::uint32_t flags, std::uint32_t bytes) {
  const std::uint16_t offset = cursor.u16(), precision = cursor.u16();
  const NumberKind kind = (flags & 8) != 0 ? NumberKind::kSigned : NumberKind::kUnsigned;
  const bool is_whole = offset == 0 && precision == 8 * bytes;
  return number(is_whole ? number_type(kind, bytes, (flags & 1) != 0) : std::nullopt, bytes,
                "integers of an unusual size");
}

Hdf5Type parse_float(Hdf5Cursor& cursor, std::uint32_t flags, std::uint32_t bytes) {
  const std::uint16_t offset = cursor.u16(), precision = cursor.u16();
  const std::uint8_t exponent_at = cursor.u8(), exponent_bits = cursor.u8();
  const std::uint8_t mantissa_at = cursor.u8(), mantissa_bits = cursor.u8();
  const std::uint32_t bias = cursor.u32();
  const bool has_usual_order = (flags & 0x40) == 0, has_implied_bit = (flags >> 4 & 3) == 2;
  for (const FloatForm& form : kFloats) {
    if (has_usual_order && has_implied_bit && offset == 0 && mantissa_at == 0 &&
        precision == form.bits && 8 * bytes == form.bits && (flags >> 8 & 0xff) == form.sign &&
        exponent_at == form.exponent_at && exponent_bits == form.exponent_bits &&
        mantissa_bits == form.mantissa_bits && bias == form.bias) {
      return number(number_type(form.kind, bytes, (flags & 1) != 0), bytes, "");
    }
  }
  return other(bytes, "floats of an unusual form");
}

Hdf5Type parse_type(Hdf5Cursor& cursor, int level);

/// h5py stores bools as an enumeration of FALSE = 0 and TRUE = 1.
Hdf5Type parse_enum(Hdf5Cursor& cursor, std::uint32_t flags, std::uint32_t bytes,
                    std::uint8_t version, int level) {
  const Hdf5Type base = parse_type(cursor, level + 1);
  const std::uint32_t count = flags & 0xffff;
  std::vector<std::string_view> names;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::string_view name = cursor.text();
    if (version < 3) cursor.skip(base::align_up(name.size() + 1, 8) - name.size() - 1);
    names.push_back(name);
  }
  const bool is_bool = names == std::vector<std::string_view>{"FALSE", "TRUE"} && base.bytes == 1 &&
                       bytes == 1 && cursor.u8() == 0 && cursor.u8() == 1;
  return is_bool ? number(number_type(NumberKind::kBool, 1), 1, "")
                 : other(bytes, "an enumeration");
}

Hdf5Type parse_text(std::uint32_t flags, std::uint32_t bytes) {
  if ((flags & 15) > 2) return other(bytes, "text of an unknown padding");
  Hdf5Type type;
  type.kind = Hdf5TypeKind::kFixedText;
  type.bytes = bytes;
  type.padding = static_cast<Hdf5Padding>(flags & 15);
  return type;
}

Hdf5Type parse_variable(std::uint32_t flags, std::uint32_t bytes) {
  constexpr std::uint32_t kReferenceBytes = 16;  // length, address, index
  if ((flags & 15) != 1 || bytes != kReferenceBytes)
    return other(bytes, "arrays of varying length");
  Hdf5Type type;
  type.kind = Hdf5TypeKind::kVariableText;
  type.bytes = bytes;
  return type;
}

Hdf5Type parse_type(Hdf5Cursor& cursor, int level) {
  if (level > kMostLevels) cursor.input().refuse(cursor.address(), "types nest too deep");
  const std::uint8_t start = cursor.u8(), version = start >> 4;
  const auto flags = static_cast<std::uint32_t>(cursor.number(3));
  const std::uint32_t bytes = cursor.u32();
  if (bytes == 0) cursor.input().refuse(cursor.address(), "elements have a size of 0 bytes");
  if (version < 1 || version > 5) {
    cursor.input().refuse(cursor.address(), "there is no version {} of datatypes", version);
  }
  switch (start & 15) {
    case kInteger:
      return parse_integer(cursor, flags, bytes);
    case kFloat:
      return parse_float(cursor, flags, bytes);
    case kText:
      return parse_text(flags, bytes);
    case kEnum:
      return parse_enum(cursor, flags, bytes, version, level);
    case kVariable:
      return parse_variable(flags, bytes);
    case kOpaqueClass: {
      Hdf5Type type = other(bytes, "an opaque type");
      type.kind = Hdf5TypeKind::kOpaque;
      return type;
    }
    default:
      break;
  }
  static constexpr std::string_view kOthers[] = {"",
                                                 "",
                                                 "a time type",
                                                 "",
                                                 "a bit field",
                                                 "",
                                                 "a compound type",
                                                 "references",
                                                 "",
                                                 "",
                                                 "an array type",
                                                 "complex numbers"};
  const std::size_t which = start & 15U;
  return other(bytes, std::string(which < std::size(kOthers) ? kOthers[which] : "an unknown type"));
}

}  // namespace

Hdf5Space parse_hdf5_space(Hdf5Cursor cursor) {
  const std::uint64_t address = cursor.address();
  const std::uint8_t version = cursor.u8(), axes = cursor.u8();
  cursor.skip(1);
  Hdf5Space space;
  if (version == 1) {
    cursor.skip(5);
  } else if (version == 2) {
    space.is_null = cursor.u8() == 2;
  } else {
    cursor.input().refuse(address, "there is no version {} of dataspaces", version);
  }
  if (axes > kMostAxes) cursor.input().refuse(address, "a dataspace has {} axes", axes);
  for (std::uint8_t axis = 0; axis < axes; ++axis) {
    const std::uint64_t size = cursor.u64();
    if (size > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      cursor.input().refuse(address, "an axis has a size of {}", size);
    }
    space.sizes.push_back(static_cast<std::int64_t>(size));
  }
  return space;
}

Hdf5Type parse_hdf5_type(Hdf5Cursor cursor) { return parse_type(cursor, 0); }

}  // namespace sluice::io::formats
