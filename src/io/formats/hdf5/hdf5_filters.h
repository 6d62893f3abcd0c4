#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "io/formats/hdf5/hdf5_messages.h"

namespace sluice::io::formats {

/// Throws ErrorCode::kUnsupported for filters other than deflate and shuffle.
void require_hdf5_filters(std::span<const Hdf5Filter> filters, std::string_view where);

/// Undoes the filters of a chunk of `bytes` bytes, but those whose bit is set in `mask`. `element`
/// is the size of an element. Throws ErrorCode::kFormat for a damaged chunk.
std::vector<std::byte> undo_hdf5_filters(std::vector<std::byte> stored,
                                         std::span<const Hdf5Filter> filters, std::uint32_t mask,
                                         std::size_t bytes, std::size_t element,
                                         std::string_view where);

}  // namespace sluice::io::formats
