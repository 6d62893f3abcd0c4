#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "io/formats/hdf5/hdf5_data.h"

namespace sluice::io::formats {

/// Reads the chunks of a dataset to their places in `elements`, the whole of it; other places stay.
/// `limit` bounds the bytes of all chunks, whole ones also at the edges.
void read_hdf5_chunks(Hdf5Input& input, const Hdf5Dataset& dataset, std::uint64_t limit,
                      std::span<std::byte> elements, std::string_view where);

}  // namespace sluice::io::formats
