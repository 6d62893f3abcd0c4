#include "io/formats/hdf5/hdf5_object.h"

#include <algorithm>

namespace sluice::io::formats {
namespace {

constexpr std::string_view kNewSignature = "OHDR", kBlockSignature = "OCHK";
constexpr std::size_t kOldPrefix = 16, kChecksum = 4;

bool is_read(Hdf5MessageType type) {
  switch (type) {
    case Hdf5MessageType::kDataspace:
    case Hdf5MessageType::kLinkInfo:
    case Hdf5MessageType::kDatatype:
    case Hdf5MessageType::kFillValue:
    case Hdf5MessageType::kLink:
    case Hdf5MessageType::kExternalFiles:
    case Hdf5MessageType::kLayout:
    case Hdf5MessageType::kFilters:
    case Hdf5MessageType::kAttribute:
    case Hdf5MessageType::kContinuation:
    case Hdf5MessageType::kSymbolTable:
    case Hdf5MessageType::kAttributeInfo:
      return true;
  }
  return false;
}

}  // namespace

Hdf5Object::Hdf5Object(Hdf5Input& input, std::uint64_t address) : input_(input), address_(address) {
  if (input.take(address, kNewSignature.size()) == kNewSignature) {
    read_new();
  } else {
    read_old();
  }
}

const Hdf5Object::Message* Hdf5Object::find(Hdf5MessageType type) const {
  const auto found = std::find_if(messages_.begin(), messages_.end(),
                                  [&](const Message& message) { return message.type == type; });
  return found == messages_.end() ? nullptr : &*found;
}

void Hdf5Object::read_old() {
  const std::string prefix = input_.take(address_, kOldPrefix);
  Hdf5Cursor cursor(input_, prefix, address_);
  cursor.expect_version(1, "object headers");
  cursor.skip(1);
  std::size_t count = cursor.u16();
  cursor.skip(4);
  continuations_.push_back({address_ + kOldPrefix, cursor.u32()});
  while (!continuations_.empty()) {
    const Block block = continuations_.front();
    continuations_.pop_front();
    read_old_block(block, count);
  }
}

void Hdf5Object::read_old_block(const Block& block, std::size_t& count) {
  constexpr std::size_t kHeader = 8;
  const std::string& bytes = blocks_.emplace_back(input_.take(block.address, block.bytes));
  Hdf5Cursor cursor(input_, bytes, block.address);
  for (; count > 0 && cursor.left() >= kHeader; --count) {
    const std::uint16_t type = cursor.u16(), size = cursor.u16();
    const std::uint8_t flags = cursor.u8();
    cursor.skip(3);
    const std::uint64_t address = cursor.address();
    add(type, flags, cursor.take(size), address);
  }
}

void Hdf5Object::read_new() {
  constexpr std::uint8_t kHasOrder = 0x04, kHasLimits = 0x10, kHasTimes = 0x20;
  constexpr std::size_t kStart = 6;
  const std::string start = input_.take(address_, kStart);
  Hdf5Cursor cursor(input_, start, address_);
  cursor.skip(kNewSignature.size());
  cursor.expect_version(2, "object headers");
  const std::uint8_t flags = cursor.u8();
  const std::size_t size_bytes = std::size_t{1} << (flags & 3);
  const std::size_t prefix = kStart + ((flags & kHasTimes) != 0 ? 16 : 0) +
                             ((flags & kHasLimits) != 0 ? 4 : 0) + size_bytes;
  const std::string size_text = input_.take(address_ + prefix - size_bytes, size_bytes);
  const std::uint64_t size = Hdf5Cursor(input_, size_text, address_).number(size_bytes);
  if (size > input_.size()) input_.refuse(address_, "an object header has {} bytes", size);
  const std::string& bytes = blocks_.emplace_back(input_.take(address_, prefix + size + kChecksum));
  input_.check_sum(bytes, address_);
  const bool has_order = (flags & kHasOrder) != 0;
  const std::string_view view = bytes;
  read_new_messages(view.substr(prefix, static_cast<std::size_t>(size)), address_ + prefix,
                    has_order);
  while (!continuations_.empty()) {
    const Block block = continuations_.front();
    continuations_.pop_front();
    const std::string& next =
        blocks_.emplace_back(input_.take_signed(block.address, block.bytes, kBlockSignature));
    input_.check_sum(next, block.address);
    if (next.size() < kBlockSignature.size() + kChecksum) {
      input_.refuse(block.address, "a part of an object header has {} bytes", next.size());
    }
    read_new_messages(std::string_view(next).substr(
                          kBlockSignature.size(), next.size() - kBlockSignature.size() - kChecksum),
                      block.address + kBlockSignature.size(), has_order);
  }
}

void Hdf5Object::read_new_messages(std::string_view bytes, std::uint64_t address, bool has_order) {
  const std::size_t header = has_order ? 6 : 4;
  Hdf5Cursor cursor(input_, bytes, address);
  while (cursor.left() >= header) {
    const std::uint8_t type = cursor.u8();
    const std::uint16_t size = cursor.u16();
    const std::uint8_t flags = cursor.u8();
    if (has_order) cursor.skip(2);
    const std::uint64_t begin = cursor.address();
    add(type, flags, cursor.take(size), begin);
  }
}

void Hdf5Object::add(std::uint16_t type, std::uint8_t flags, std::string_view content,
                     std::uint64_t address) {
  constexpr std::uint8_t kIsShared = 0x02, kFailsIfUnknown = 0x80;
  const auto known = static_cast<Hdf5MessageType>(type);
  if (!is_read(known)) {
    if ((flags & kFailsIfUnknown) != 0) {
      input_.refuse_feature(fmt::format("a message of type {}", type));
    }
    return;
  }
  if ((flags & kIsShared) != 0) input_.refuse_feature("shared messages, such as named types");
  if (known != Hdf5MessageType::kContinuation) {
    messages_.push_back({known, content, address});
    return;
  }
  Hdf5Cursor cursor(input_, content, address);
  const std::uint64_t next = cursor.u64();
  continuations_.push_back({next, cursor.u64()});
}

}  // namespace sluice::io::formats
