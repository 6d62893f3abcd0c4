#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "io/formats/hdf5/hdf5_heap.h"
#include "io/formats/hdf5/hdf5_messages.h"
#include "io/formats/hdf5/hdf5_object.h"
#include "io/host_tensor.h"

namespace sluice::io::formats {

/// The value of an attribute or a dataset.
struct Hdf5Value {
  std::vector<std::int64_t> sizes;  ///< axes, outermost first; none for a scalar
  std::string type_name;            ///< "float32", "bool", "text": what the file has
  std::variant<HostTensor, std::vector<std::string>> content;

  bool is_text() const { return content.index() == 1; }
};

/// The description of a dataset.
struct Hdf5Dataset {
  Hdf5Space space;
  Hdf5Type type;
  Hdf5Layout layout;
  std::vector<Hdf5Filter> filters;
  std::string fill_value;  ///< of one element; empty for zeros
};

/// "float32", "text", or what kind of type it is that is not read.
std::string hdf5_type_name(const Hdf5Type& type);

/// Throws ErrorCode::kFormat if a message is missing, kUnsupported for data in other files.
Hdf5Dataset parse_hdf5_dataset(Hdf5Input& input, const Hdf5Object& object);

/// The elements of a dataset as the file stores them, row-major. They are at most 16 times as large
/// as the file, plus 1 MiB (ErrorCode::kFormat).
std::vector<std::byte> read_hdf5_elements(Hdf5Input& input, const Hdf5Dataset& dataset,
                                          std::string_view where);

/// The value of elements. `where` begins messages.
Hdf5Value hdf5_value(Hdf5Input& input, const Hdf5Type& type, const Hdf5Space& space,
                     std::span<const std::byte> elements, std::string_view where);

}  // namespace sluice::io::formats
