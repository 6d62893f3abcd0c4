#include "io/formats/hdf5/hdf5_group.h"

#include <algorithm>

#include "io/formats/hdf5/hdf5_heap.h"
#include "io/safetensors_header.h"

namespace sluice::io::formats {
namespace {

constexpr std::uint8_t kMostLevels = 16;

/// A group of HDF5 1.6: a B-tree of blocks of symbols, whose names stand in a local heap.
class SymbolTable {
 public:
  SymbolTable(Hdf5Input& input, Hdf5Cursor message) : input_(input) {
    const std::uint64_t tree = message.u64();
    read_heap(message.u64());
    read_node(tree, kMostLevels);
  }

  std::vector<Hdf5Link> take() { return std::move(links_); }

 private:
  void read_heap(std::uint64_t address) {
    const std::string header = input_.take_signed(address, 32, "HEAP");
    Hdf5Cursor cursor(input_, header, address);
    cursor.skip(4);
    cursor.expect_version(0, "local heaps");
    cursor.skip(3);
    const std::uint64_t bytes = cursor.u64();
    cursor.skip(8);
    heap_address_ = cursor.u64();
    heap_ = input_.take(heap_address_, bytes);
  }

  /// `above` is the level of the parent.
  void read_node(std::uint64_t address, std::uint8_t above) {
    constexpr std::size_t kHeader = 24, kPair = 16;
    const std::string header = input_.take_signed(address, kHeader, "TREE");
    Hdf5Cursor start(input_, header, address);
    start.skip(4);
    const std::uint8_t type = start.u8(), level = start.u8();
    const std::uint16_t count = start.u16();
    if (type != 0 || level >= above) input_.refuse(address, "the B-tree of a group is malformed");
    const std::string entries = input_.take(address + kHeader, kPair * count);
    Hdf5Cursor cursor(input_, entries, address + kHeader);
    for (std::uint16_t i = 0; i < count; ++i) {
      cursor.skip(8);
      const std::uint64_t child = cursor.u64();
      level == 0 ? read_symbols(child) : read_node(child, level);
    }
  }

  void read_symbols(std::uint64_t address) {
    constexpr std::size_t kHeader = 8, kEntry = 40;
    constexpr std::uint32_t kSoftLink = 2;
    const std::string header = input_.take_signed(address, kHeader, "SNOD");
    Hdf5Cursor start(input_, header, address);
    start.skip(4);
    start.expect_version(1, "symbol tables");
    start.skip(1);
    const std::uint16_t count = start.u16();
    const std::string entries = input_.take(address + kHeader, kEntry * count);
    Hdf5Cursor cursor(input_, entries, address + kHeader);
    for (std::uint16_t i = 0; i < count; ++i) {
      Hdf5Link link;
      link.name = name_at(cursor.u64());
      link.address = cursor.u64();
      if (cursor.u32() == kSoftLink) link.kind = Hdf5LinkKind::kSoft;
      cursor.skip(20);
      links_.push_back(std::move(link));
    }
  }

  std::string name_at(std::uint64_t offset) {
    if (offset > heap_.size()) input_.refuse(heap_address_, "a name stands beyond its heap");
    const auto begin = static_cast<std::size_t>(offset);
    const std::string_view name =
        Hdf5Cursor(input_, std::string_view(heap_).substr(begin), heap_address_ + offset).text();
    input_.charge(name.size());
    return std::string(name);
  }

  Hdf5Input& input_;
  std::string heap_;
  std::uint64_t heap_address_ = 0;
  std::vector<Hdf5Link> links_;
};

struct DenseIndex {
  std::uint64_t heap = kHdf5Nowhere;
  std::uint64_t names = kHdf5Nowhere;
};

/// Where a link info or attribute info message says that a fractal heap and its index are.
DenseIndex dense_index(Hdf5Input& input, const Hdf5Object::Message& message,
                       std::size_t order_bytes) {
  Hdf5Cursor cursor(input, message.content, message.address);
  cursor.expect_version(0, "link and attribute info");
  if ((cursor.u8() & 1) != 0) cursor.skip(order_bytes);
  DenseIndex index;
  index.heap = cursor.u64();
  index.names = cursor.u64();
  return index;
}

/// Calls `take` with each object of the heap, whose id stands at `id_at` of an index record.
template <typename Take>
void for_each_dense(Hdf5Input& input, const DenseIndex& index, std::size_t id_at,
                    const Take& take) {
  if (index.heap == kHdf5Nowhere) return;
  Hdf5FractalHeap heap(input, index.heap);
  for (const std::string& record : read_hdf5_records(input, index.names)) {
    Hdf5Cursor cursor(input, record, index.names);
    cursor.skip(id_at);
    const std::string object = heap.object(cursor.take(heap.id_bytes()));
    take(Hdf5Cursor(input, object, index.heap), cursor);
  }
}

void sort_links(std::vector<Hdf5Link>& links) {
  const bool has_order = std::all_of(links.begin(), links.end(),
                                     [](const Hdf5Link& link) { return link.creation_order; });
  std::sort(links.begin(), links.end(), [&](const Hdf5Link& a, const Hdf5Link& b) {
    return has_order ? *a.creation_order < *b.creation_order : a.name < b.name;
  });
}

}  // namespace

bool is_hdf5_group(const Hdf5Object& object) {
  return object.find(Hdf5MessageType::kSymbolTable) != nullptr ||
         object.find(Hdf5MessageType::kLinkInfo) != nullptr ||
         object.find(Hdf5MessageType::kLink) != nullptr;
}

std::vector<Hdf5Link> read_hdf5_links(Hdf5Input& input, const Hdf5Object& object) {
  if (const auto* table = object.find(Hdf5MessageType::kSymbolTable)) {
    return SymbolTable(input, Hdf5Cursor(input, table->content, table->address)).take();
  }
  std::vector<Hdf5Link> links;
  for (const Hdf5Object::Message& message : object.messages()) {
    if (message.type != Hdf5MessageType::kLink) continue;
    links.push_back(parse_hdf5_link(Hdf5Cursor(input, message.content, message.address)));
  }
  if (const auto* info = object.find(Hdf5MessageType::kLinkInfo)) {
    constexpr std::size_t kHash = 4;
    for_each_dense(input, dense_index(input, *info, 8), kHash,
                   [&](Hdf5Cursor link, Hdf5Cursor&) { links.push_back(parse_hdf5_link(link)); });
  }
  sort_links(links);
  return links;
}

std::vector<Hdf5Attribute> read_hdf5_attributes(Hdf5Input& input, const Hdf5Object& object) {
  std::vector<Hdf5Attribute> attributes;
  for (const Hdf5Object::Message& message : object.messages()) {
    if (message.type != Hdf5MessageType::kAttribute) continue;
    input.charge(message.content.size());
    attributes.push_back(parse_hdf5_attribute(Hdf5Cursor(input, message.content, message.address)));
  }
  if (const auto* info = object.find(Hdf5MessageType::kAttributeInfo)) {
    for_each_dense(input, dense_index(input, *info, 2), 0, [&](Hdf5Cursor found, Hdf5Cursor& rest) {
      constexpr std::uint8_t kIsShared = 2;
      if ((rest.u8() & kIsShared) != 0) input.refuse_feature("shared attributes");
      attributes.push_back(parse_hdf5_attribute(found));
    });
  }
  return attributes;
}

}  // namespace sluice::io::formats
