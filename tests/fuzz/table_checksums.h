#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "io/crc32c.h"

namespace sluice::io::formats {

/// Makes the checksums of a sorted table right again as far as its blocks can be found, so that a
/// mutated file gets past them to the code behind.
class TableChecksums {
 public:
  static void repair(std::string& table) {
    if (table.size() < kFooter) return;
    TableChecksums self(table);
    std::size_t at = table.size() - kFooter;
    const std::uint64_t meta = self.number(at);
    self.repair_block(meta, self.number(at));
    const std::uint64_t offset = self.number(at), bytes = self.number(at);
    self.repair_index(offset, bytes);
    self.repair_block(offset, bytes);
  }

 private:
  static constexpr std::size_t kFooter = 48;

  explicit TableChecksums(std::string& table) : table_(table) {}

  std::uint64_t number(std::size_t& at) const {
    std::uint64_t value = 0;
    for (unsigned shift = 0; at < table_.size() && shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(table_[at++]);
      value |= std::uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) break;
    }
    return value;
  }

  void repair_index(std::uint64_t offset, std::uint64_t bytes) {
    if (!holds(offset, bytes)) return;
    const auto end = static_cast<std::size_t>(offset + bytes);
    for (std::size_t at = static_cast<std::size_t>(offset); at < end;) {
      number(at);
      const std::uint64_t key = number(at), value = number(at);
      if (key > end || value > end || at + key + value > end) return;
      std::size_t handle = at + static_cast<std::size_t>(key);
      at = handle + static_cast<std::size_t>(value);
      const std::uint64_t block = number(handle);
      repair_block(block, number(handle));
    }
  }

  /// A block's checksum, of its bytes and its type, stands behind them.
  void repair_block(std::uint64_t offset, std::uint64_t bytes) {
    if (!holds(offset, bytes)) return;
    const auto begin = static_cast<std::size_t>(offset), size = static_cast<std::size_t>(bytes);
    const std::uint32_t sum = masked_crc32c(std::string_view(table_).substr(begin, size + 1));
    std::memcpy(table_.data() + begin + size + 1, &sum, sizeof(sum));
  }

  bool holds(std::uint64_t offset, std::uint64_t bytes) const {
    return offset <= table_.size() && bytes <= table_.size() && offset + bytes + 5 <= table_.size();
  }

  std::string& table_;
};

}  // namespace sluice::io::formats
