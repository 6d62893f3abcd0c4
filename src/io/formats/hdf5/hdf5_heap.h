#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/formats/hdf5/hdf5_input.h"

namespace sluice::io::formats {

/// The records of a B-tree of version 2, whose header is at an address, in their order.
std::vector<std::string> read_hdf5_records(Hdf5Input& input, std::uint64_t address);

/// A fractal heap: where groups keep many links and objects many or large attributes.
class Hdf5FractalHeap {
 public:
  Hdf5FractalHeap(Hdf5Input& input, std::uint64_t address);

  std::size_t id_bytes() const { return id_bytes_; }
  /// The object that an id of id_bytes() bytes names.
  std::string object(std::string_view id);

 private:
  std::string managed(Hdf5Cursor id);
  std::string huge(Hdf5Cursor id);
  std::uint64_t row_bytes(std::uint64_t row) const;
  std::uint64_t block_of(std::uint64_t address, std::uint64_t rows, std::uint64_t& offset);

  Hdf5Input& input_;
  std::uint64_t address_;
  std::size_t id_bytes_ = 0;
  std::uint32_t largest_managed_ = 0;
  std::uint64_t huge_index_ = kHdf5Nowhere;
  std::optional<std::vector<std::string>> huge_records_;
  std::uint64_t width_ = 0, first_block_ = 0, largest_block_ = 0;
  std::uint64_t root_ = kHdf5Nowhere, root_rows_ = 0;
  std::size_t offset_bytes_ = 0, length_bytes_ = 0;
};

/// The global heap collections that texts of varying length stand in. Keeps what it has read.
class Hdf5GlobalHeap {
 public:
  explicit Hdf5GlobalHeap(Hdf5Input& input) : input_(input) {}
  /// The text that 16 bytes refer to: length, address of the collection, index in it.
  std::string_view text(Hdf5Cursor reference);

 private:
  struct Collection {
    std::string bytes;
    std::map<std::uint16_t, std::string_view> objects;
  };

  const Collection& collection(std::uint64_t address);

  Hdf5Input& input_;
  std::map<std::uint64_t, Collection> collections_;
};

}  // namespace sluice::io::formats
