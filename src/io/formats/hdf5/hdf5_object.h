#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "io/formats/hdf5/hdf5_input.h"
#include "io/formats/hdf5/hdf5_messages.h"

namespace sluice::io::formats {

/// The header of a group or a dataset: versions 1 and 2, with the blocks that continue it.
class Hdf5Object {
 public:
  struct Message {
    Hdf5MessageType type;
    std::string_view content;
    std::uint64_t address;
  };

  Hdf5Object(Hdf5Input& input, std::uint64_t address);
  Hdf5Object(const Hdf5Object&) = delete;
  Hdf5Object& operator=(const Hdf5Object&) = delete;

  /// Only those that this library reads, in their order.
  const std::vector<Message>& messages() const { return messages_; }
  /// The first of a type, or null.
  const Message* find(Hdf5MessageType type) const;
  std::uint64_t address() const { return address_; }

 private:
  struct Block {
    std::uint64_t address;
    std::uint64_t bytes;
  };

  void read_old();
  void read_new();
  void read_old_block(const Block& block, std::size_t& count);
  void read_new_messages(std::string_view bytes, std::uint64_t address, bool has_order);
  void add(std::uint16_t type, std::uint8_t flags, std::string_view content, std::uint64_t address);

  Hdf5Input& input_;
  std::uint64_t address_;
  std::deque<std::string> blocks_;
  std::vector<Message> messages_;
  std::deque<Block> continuations_;
};

}  // namespace sluice::io::formats
