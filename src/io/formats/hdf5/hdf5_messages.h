#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/formats/hdf5/hdf5_input.h"
#include "io/formats/number_type.h"

namespace sluice::io::formats {

// The messages of HDF5's object headers, by the numbers of the format's specification.
enum class Hdf5MessageType : std::uint16_t {
  kDataspace = 0x01,
  kLinkInfo = 0x02,
  kDatatype = 0x03,
  kFillValue = 0x05,
  kLink = 0x06,
  kExternalFiles = 0x07,
  kLayout = 0x08,
  kFilters = 0x0b,
  kAttribute = 0x0c,
  kContinuation = 0x10,
  kSymbolTable = 0x11,
  kAttributeInfo = 0x15,
};

struct Hdf5Space {
  std::vector<std::int64_t> sizes;  ///< axes, outermost first
  bool is_null = false;             ///< no elements, as h5py.Empty
};

enum class Hdf5TypeKind : std::uint8_t { kNumber, kFixedText, kVariableText, kOpaque, kOther };
enum class Hdf5Padding : std::uint8_t { kZeroEnd, kZeros, kSpaces };

struct Hdf5Type {
  Hdf5TypeKind kind = Hdf5TypeKind::kOther;
  std::uint32_t bytes = 0;                      ///< of an element, never 0
  NumberType number;                            ///< of kNumber
  Hdf5Padding padding = Hdf5Padding::kZeroEnd;  ///< of kFixedText
  std::string other;                            ///< of kOther, what it is: "a compound type"
};

struct Hdf5Attribute {
  std::string name;
  Hdf5Type type;
  Hdf5Space space;
  std::string content;
};

enum class Hdf5LinkKind : std::uint8_t { kHard, kSoft, kExternal };

struct Hdf5Link {
  std::string name;
  Hdf5LinkKind kind = Hdf5LinkKind::kHard;
  std::uint64_t address = kHdf5Nowhere;         ///< of the object header
  std::optional<std::uint64_t> creation_order;  ///< if the group keeps it
};

struct Hdf5Filter {
  std::uint16_t id = 0;
  std::uint32_t parameter = 0;  ///< the first
};

enum class Hdf5LayoutKind : std::uint8_t { kCompact, kContiguous, kChunked, kSingleChunk };

struct Hdf5Layout {
  Hdf5LayoutKind kind = Hdf5LayoutKind::kContiguous;
  std::string content;  ///< of kCompact
  std::uint64_t address = kHdf5Nowhere;
  std::uint64_t bytes = 0;           ///< of kContiguous and of a filtered kSingleChunk
  std::uint32_t filter_mask = 0;     ///< of kSingleChunk
  std::vector<std::uint64_t> chunk;  ///< sizes of a chunk's axes
};

Hdf5Space parse_hdf5_space(Hdf5Cursor cursor);
Hdf5Type parse_hdf5_type(Hdf5Cursor cursor);
Hdf5Attribute parse_hdf5_attribute(Hdf5Cursor cursor);
Hdf5Link parse_hdf5_link(Hdf5Cursor cursor);
std::vector<Hdf5Filter> parse_hdf5_filters(Hdf5Cursor cursor);
Hdf5Layout parse_hdf5_layout(Hdf5Cursor cursor);
/// The bytes of the element that stands where nothing was written; empty for zeros.
std::string parse_hdf5_fill_value(Hdf5Cursor cursor);

}  // namespace sluice::io::formats
