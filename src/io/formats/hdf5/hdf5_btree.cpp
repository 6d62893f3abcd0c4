// B-trees of version 2: indexes of fractal heaps.
#include <bit>

#include "io/formats/hdf5/hdf5_heap.h"

namespace sluice::io::formats {
namespace {

constexpr std::size_t kNodeOverhead = 10;  // signature, version, type, checksum
constexpr std::size_t kAddress = 8;
constexpr std::uint16_t kMostLevels = 16;

std::size_t bytes_for(std::uint64_t limit) {
  return (static_cast<std::size_t>(std::bit_width(limit | 1)) - 1) / 8 + 1;
}

class Tree {
 public:
  Tree(Hdf5Input& input, std::uint64_t address) : input_(input), address_(address) {
    constexpr std::size_t kHeader = 38;
    const std::string header = input.take_signed(address, kHeader, "BTHD");
    input.check_sum(header, address);
    Hdf5Cursor cursor(input, header, address);
    cursor.skip(4);
    cursor.expect_version(0, "B-trees");
    cursor.skip(1);
    node_bytes_ = cursor.u32();
    record_bytes_ = cursor.u16();
    const std::uint16_t depth = cursor.u16();
    cursor.skip(2);
    const std::uint64_t root = cursor.u64();
    const std::uint16_t count = cursor.u16();
    if (depth > kMostLevels || record_bytes_ == 0 || node_bytes_ < kNodeOverhead + record_bytes_) {
      input.refuse(address, "the sizes of a B-tree are not possible");
    }
    measure(depth);
    if (count > 0) read_node(root, count, depth);
  }

  std::vector<std::string> take() { return std::move(records_); }

 private:
  /// The bytes of the counts that stand beside the addresses of a level's nodes.
  void measure(std::uint16_t depth) {
    std::uint64_t most = (node_bytes_ - kNodeOverhead) / record_bytes_, below = most;
    count_bytes_ = bytes_for(most);
    total_bytes_.assign({0});
    for (std::uint16_t level = 1; level <= depth; ++level) {
      const std::size_t pointer = kAddress + count_bytes_ + total_bytes_.back();
      if (node_bytes_ < kNodeOverhead + pointer) {
        input_.refuse(address_, "the sizes of a B-tree are not possible");
      }
      most = (node_bytes_ - kNodeOverhead - pointer) / (record_bytes_ + pointer);
      // Saturates far above any count; only its number of bytes matters.
      below = below > std::uint64_t{1} << 40 ? below : (most + 1) * below + most;
      total_bytes_.push_back(bytes_for(below));
    }
  }

  void read_node(std::uint64_t address, std::uint64_t count, std::uint16_t level) {
    const std::size_t pointer = level == 0 ? 0 : kAddress + count_bytes_ + total_bytes_[level - 1U];
    const std::uint64_t bytes =
        kNodeOverhead + count * record_bytes_ + (level == 0 ? 0 : (count + 1) * pointer);
    if (bytes > node_bytes_) input_.refuse(address, "a node of a B-tree is too full");
    const std::string node = input_.take_signed(address, bytes, level == 0 ? "BTLF" : "BTIN");
    input_.check_sum(node, address);
    Hdf5Cursor cursor(input_, node, address);
    cursor.skip(6);
    std::vector<std::string> own;
    for (std::uint64_t i = 0; i < count; ++i) own.emplace_back(cursor.take(record_bytes_));
    if (level == 0) {
      records_.insert(records_.end(), own.begin(), own.end());
      return;
    }
    for (std::uint64_t i = 0; i <= count; ++i) {
      const std::uint64_t child = cursor.u64(), child_count = cursor.number(count_bytes_);
      cursor.skip(total_bytes_[level - 1U]);
      read_node(child, child_count, static_cast<std::uint16_t>(level - 1));
      if (i < count) records_.push_back(std::move(own[static_cast<std::size_t>(i)]));
    }
  }

  Hdf5Input& input_;
  std::uint64_t address_;
  std::uint64_t node_bytes_ = 0;
  std::size_t record_bytes_ = 0;
  std::size_t count_bytes_ = 0;
  std::vector<std::size_t> total_bytes_;  ///< by the level of the node
  std::vector<std::string> records_;
};

}  // namespace

std::vector<std::string> read_hdf5_records(Hdf5Input& input, std::uint64_t address) {
  return Tree(input, address).take();
}

}  // namespace sluice::io::formats
