#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "io/host_tensor.h"

namespace sluice::io::formats {

// Encoding of HDF5 1.6: messages of object headers, each padded to 8 bytes.

/// Appends a number, little-endian.
void append_number(std::string& bytes, std::uint64_t number, std::size_t size);
/// Appends zeros up to a multiple of 8 bytes.
void pad_to_8(std::string& bytes);

/// Dataspaces; `sizes` is empty for a scalar.
std::string hdf5_space(std::span<const std::int64_t> sizes);

std::string hdf5_number_type(DType dtype);
std::string hdf5_fixed_text_type(std::size_t bytes);
std::string hdf5_variable_text_type();

std::string hdf5_fill_value();
/// Contiguous data; `address` is kHdf5Nowhere for no bytes.
std::string hdf5_contiguous_layout(std::uint64_t address, std::uint64_t bytes);
/// An attribute without its content, which follows.
std::string hdf5_attribute_start(std::string_view name, const std::string& type,
                                 const std::string& space);

/// The header of a local heap, whose names stand at `data_address`.
std::string hdf5_local_heap(std::uint64_t bytes, std::uint64_t data_address);

}  // namespace sluice::io::formats
