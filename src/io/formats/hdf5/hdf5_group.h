#pragma once

#include <vector>

#include "io/formats/hdf5/hdf5_messages.h"
#include "io/formats/hdf5/hdf5_object.h"

namespace sluice::io::formats {

bool is_hdf5_group(const Hdf5Object& object);

/// The links of a group: of a symbol table (HDF5 1.6), of link messages or of a fractal heap. They
/// come in the order of their creation if the file keeps it, else by name.
std::vector<Hdf5Link> read_hdf5_links(Hdf5Input& input, const Hdf5Object& object);

/// The attributes of a group or a dataset, of messages or of a fractal heap, ordered likewise.
std::vector<Hdf5Attribute> read_hdf5_attributes(Hdf5Input& input, const Hdf5Object& object);

}  // namespace sluice::io::formats
