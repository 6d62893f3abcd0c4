#include "io/formats/hdf5/hdf5_heap.h"

#include <algorithm>
#include <bit>

#include "base/shape.h"

namespace sluice::io::formats {
namespace {

constexpr std::size_t kAddress = 8, kChecksum = 4;

/// The bytes of the largest number up to `limit`, as HDF5 computes them.
std::size_t bytes_for(std::uint64_t limit) {
  return (static_cast<std::size_t>(std::bit_width(std::max<std::uint64_t>(limit, 1))) - 1) / 8 + 1;
}

}  // namespace

Hdf5FractalHeap::Hdf5FractalHeap(Hdf5Input& input, std::uint64_t address)
    : input_(input), address_(address) {
  constexpr std::size_t kHeader = 146;
  const std::string header = input.take_signed(address, kHeader, "FRHP");
  Hdf5Cursor cursor(input, header, address);
  cursor.skip(4);
  cursor.expect_version(0, "fractal heaps");
  id_bytes_ = cursor.u16();
  if (cursor.u16() != 0) input.refuse_feature("a compressed fractal heap");
  input.check_sum(header, address);
  cursor.skip(1);
  largest_managed_ = cursor.u32();
  cursor.skip(8);
  huge_index_ = cursor.u64();
  cursor.skip(2 * kAddress + 8 * 8);
  width_ = cursor.u16();
  first_block_ = cursor.u64();
  largest_block_ = cursor.u64();
  const std::uint16_t heap_bits = cursor.u16();
  cursor.skip(2);
  root_ = cursor.u64();
  root_rows_ = cursor.u16();
  const bool are_powers = std::has_single_bit(width_) && std::has_single_bit(first_block_) &&
                          std::has_single_bit(largest_block_);
  if (!are_powers || first_block_ > largest_block_ || largest_block_ > std::uint64_t{1} << 40 ||
      heap_bits > 64 || id_bytes_ < 2 || id_bytes_ > 64) {
    input.refuse(address, "the sizes of a fractal heap are not possible");
  }
  offset_bytes_ = (heap_bits + 7U) / 8;
  const auto largest_bits = static_cast<std::size_t>(std::bit_width(largest_block_)) - 1;
  length_bytes_ = std::min((largest_bits + 7) / 8, bytes_for(largest_managed_));
}

std::string Hdf5FractalHeap::object(std::string_view id) {
  Hdf5Cursor cursor(input_, id, address_);
  const std::uint8_t start = cursor.u8();
  switch (start >> 4) {
    case 0:
      return managed(cursor);
    case 1:
      return huge(cursor);
    case 2:
      return std::string(cursor.take((start & 15U) + 1));
    default:
      input_.refuse(address_, "a fractal heap has an object of an unknown kind");
  }
}

std::string Hdf5FractalHeap::managed(Hdf5Cursor id) {
  std::uint64_t offset = id.number(offset_bytes_);
  const std::uint64_t length = id.number(length_bytes_);
  const std::uint64_t block = root_rows_ == 0 ? root_ : block_of(root_, root_rows_, offset);
  if (offset >= largest_block_ || length > largest_block_ - offset || length > largest_managed_) {
    input_.refuse(address_, "an object does not lie in its fractal heap");
  }
  input_.take_signed(block, 4, "FHDB");
  return input_.take(block + offset, length);
}

std::uint64_t Hdf5FractalHeap::row_bytes(std::uint64_t row) const {
  return row == 0 ? first_block_ : first_block_ << std::min<std::uint64_t>(row - 1, 40);
}

/// The direct block that holds `offset`, which becomes the offset in that block. Indirect blocks
/// have rows of `width_` blocks; from the third row on, each row's blocks are twice as large.
std::uint64_t Hdf5FractalHeap::block_of(std::uint64_t address, std::uint64_t rows,
                                        std::uint64_t& offset) {
  constexpr int kMostLevels = 8;
  for (int level = 0; level < kMostLevels; ++level) {
    input_.take_signed(address, 4, "FHIB");
    std::uint64_t row = 0;
    while (row < rows && row < 64 && offset >= row_bytes(row) * width_) {
      offset -= row_bytes(row) * width_;
      ++row;
    }
    if (row >= rows || row >= 64) break;
    const std::uint64_t index = row * width_ + offset / row_bytes(row);
    const std::uint64_t entry = address + 5 + kAddress + offset_bytes_ + index * kAddress;
    const std::string text = input_.take(entry, kAddress);
    address = Hdf5Cursor(input_, text, entry).u64();
    offset %= row_bytes(row);
    if (row_bytes(row) <= largest_block_) return address;
    // An indirect block has as many rows as make up its size.
    rows = static_cast<std::uint64_t>(std::bit_width(row_bytes(row) / (first_block_ * width_)));
  }
  input_.refuse(address_, "an object does not lie in its fractal heap");
}

/// Objects beyond the largest managed one stand alone; a B-tree maps their numbers to addresses.
std::string Hdf5FractalHeap::huge(Hdf5Cursor id) {
  if (id_bytes_ > 2 * kAddress) {
    const std::uint64_t address = id.u64();
    return input_.take(address, id.u64());
  }
  const std::uint64_t wanted = id.number(std::min<std::size_t>(id.left(), 8));
  if (!huge_records_) huge_records_ = read_hdf5_records(input_, huge_index_);
  for (const std::string& record : *huge_records_) {
    Hdf5Cursor cursor(input_, record, huge_index_);
    const std::uint64_t address = cursor.u64(), length = cursor.u64();
    if (cursor.u64() == wanted) return input_.take(address, length);
  }
  input_.refuse(address_, "a fractal heap lacks its object {}", wanted);
}

std::string_view Hdf5GlobalHeap::text(Hdf5Cursor reference) {
  const std::uint32_t length = reference.u32();
  const std::uint64_t address = reference.u64();
  const auto index = static_cast<std::uint16_t>(reference.u32());
  if (length == 0 || address == 0 || address == kHdf5Nowhere) return {};
  const Collection& held = collection(address);
  const auto found = held.objects.find(index);
  if (found == held.objects.end() || found->second.size() < length) {
    input_.refuse(address, "the global heap lacks a text of {} bytes with the index {}", length,
                  index);
  }
  input_.charge(length);
  return found->second.substr(0, length);
}

const Hdf5GlobalHeap::Collection& Hdf5GlobalHeap::collection(std::uint64_t address) {
  constexpr std::size_t kHeader = 16, kObjectHeader = 16;
  const auto known = collections_.find(address);
  if (known != collections_.end()) return known->second;
  const std::string header = input_.take_signed(address, kHeader, "GCOL");
  Hdf5Cursor start(input_, header, address);
  start.skip(4);
  start.expect_version(1, "global heaps");
  start.skip(3);
  const std::uint64_t bytes = start.u64();
  Collection& made = collections_[address];
  made.bytes = input_.take(address, bytes);
  Hdf5Cursor cursor(input_, made.bytes, address);
  cursor.skip(kHeader);
  while (cursor.left() >= kObjectHeader) {
    const std::uint16_t index = cursor.u16();
    cursor.skip(6);
    const std::uint64_t size = cursor.u64();
    if (index == 0) break;  // free space up to the end
    made.objects[index] = cursor.take(size);
    cursor.skip(std::min<std::uint64_t>(base::align_up(made.objects[index].size(), 8) - size,
                                        cursor.left()));
  }
  return made;
}

}  // namespace sluice::io::formats
