#include "io/formats/hdf5/hdf5_writer.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <utility>

#include "base/check.h"
#include "base/shape.h"
#include "io/formats/hdf5/hdf5_encoding.h"
#include "io/formats/hdf5/hdf5_input.h"
#include "io/formats/hdf5/hdf5_messages.h"
#include "io/output_file.h"
#include "io/safetensors_header.h"

namespace sluice::io::formats {
namespace {

// A block of symbols holds 2 kLeafRank links, a node of a B-tree as many blocks as its rank says.
constexpr std::size_t kLeafRank = 4, kLeastTreeRank = 16, kMostTreeRank = 32767;
constexpr std::size_t kSuperblockBytes = 96, kSymbolBytes = 40;
/// The size of a message has 16 bits and is a multiple of 8.
constexpr std::size_t kLargestMessage = 65528, kMostMessages = 65535, kMostTexts = 65535;
constexpr std::uint64_t kLeastGlobalHeap = 4096;

}  // namespace

struct Hdf5Writer::Node {
  struct Attribute {
    std::string name;
    std::string start;    ///< the message but its content
    std::string content;  ///< for a reference the length and the index of a text
    bool is_reference;
  };

  bool is_dataset = false;
  DType dtype = DType::kFloat32;
  Shape shape;
  std::span<const std::byte> data;
  std::vector<Attribute> attributes;
  // By name, the order in which B-trees hold links.
  std::map<std::string, std::unique_ptr<Node>, std::less<>> children;
};

/// Gives everything its address: the superblock, the data, the texts, then what describes them.
class Hdf5Writer::Layout {
 public:
  explicit Layout(const Hdf5Writer& writer) : writer_(writer) {
    place_data(*writer.root_);
    heap_at_ = data_end_;
    meta_at_ = heap_at_ + global_heap().size();
    tree_rank_ = std::max(kLeastTreeRank, rank_for(*writer.root_));
    root_ = add_object(*writer.root_);
  }

  using Sink = std::function<void(std::span<const std::byte>)>;
  /// Gives the file's bytes to `put`, part after part.
  void write(const Sink& put) const {
    const auto put_text = [&](std::string_view text) { put(std::as_bytes(std::span(text))); };
    put_text(superblock());
    for (const Node* node : in_order_) {
      put(node->data);
      static constexpr std::byte kZeros[8] = {};
      put(std::span(kZeros).first(base::align_up(node->data.size(), 8) - node->data.size()));
    }
    put_text(global_heap());
    put_text(meta_);
  }

 private:
  struct GroupAddresses {
    std::uint64_t tree, heap;
  };

  void place_data(const Node& node) {
    if (node.is_dataset && !node.data.empty()) {
      addresses_[&node] = data_end_;
      data_end_ += base::align_up(node.data.size(), 8);
      in_order_.push_back(&node);
    }
    for (const auto& child : node.children) place_data(*child.second);
  }

  /// Half the number of blocks that the largest group takes.
  static std::size_t rank_for(const Node& node) {
    constexpr std::size_t kLinks = 4 * kLeafRank;
    std::size_t rank = (node.children.size() + kLinks - 1) / kLinks;
    for (const auto& child : node.children) rank = std::max(rank, rank_for(*child.second));
    if (rank > kMostTreeRank) {
      base::fail(ErrorCode::kUnsupported, "a group of {} links is more than the layout holds",
                 node.children.size());
    }
    return rank;
  }

  /// All texts of attributes in one collection.
  std::string global_heap() const {
    if (writer_.texts_.empty()) return {};
    std::string objects;
    std::uint64_t index = 0;
    for (const std::string& text : writer_.texts_) {
      append_number(objects, ++index, 2);
      append_number(objects, 1, 2);  // references
      append_number(objects, 0, 4);
      append_number(objects, text.size(), 8);
      objects += text;
      pad_to_8(objects);
    }
    constexpr std::size_t kHeader = 16;
    // At the end is an object of free space.
    const std::uint64_t bytes =
        std::max<std::uint64_t>(kLeastGlobalHeap, 2 * kHeader + objects.size());
    std::string heap("GCOL\1\0\0\0", 8);
    append_number(heap, bytes, 8);
    heap += objects;
    const std::uint64_t free = bytes - heap.size();
    append_number(heap, 0, 8);
    append_number(heap, free, 8);
    heap.resize(static_cast<std::size_t>(bytes));
    return heap;
  }

  std::uint64_t add(const std::string& bytes) {
    const std::uint64_t address = meta_at_ + meta_.size();
    meta_ += bytes;
    pad_to_8(meta_);
    return address;
  }

  /// The address of the object header; what it refers to comes first.
  std::uint64_t add_object(const Node& node) {
    std::string messages;
    std::size_t count = 0;
    const auto add_message = [&](Hdf5MessageType type, std::string content) {
      pad_to_8(content);
      append_number(messages, static_cast<std::uint64_t>(type), 2);
      append_number(messages, content.size(), 2);
      append_number(messages, 0, 4);
      messages += content;
      ++count;
    };
    if (node.is_dataset) {
      const auto found = addresses_.find(&node);
      const std::span<const std::int64_t> sizes(node.shape.begin(), node.shape.rank());
      add_message(Hdf5MessageType::kDataspace, hdf5_space(sizes));
      add_message(Hdf5MessageType::kDatatype, hdf5_number_type(node.dtype));
      add_message(Hdf5MessageType::kFillValue, hdf5_fill_value());
      add_message(Hdf5MessageType::kLayout,
                  hdf5_contiguous_layout(found == addresses_.end() ? kHdf5Nowhere : found->second,
                                         node.data.size()));
    } else {
      const GroupAddresses group = add_links(node);
      if (&node == writer_.root_.get()) root_group_ = group;
      std::string table;
      append_number(table, group.tree, 8);
      append_number(table, group.heap, 8);
      add_message(Hdf5MessageType::kSymbolTable, table);
    }
    for (const Node::Attribute& attribute : node.attributes) {
      add_message(Hdf5MessageType::kAttribute, attribute.start + content_of(attribute));
    }
    std::string header("\1\0", 2);
    append_number(header, count, 2);
    append_number(header, 1, 4);  // links to it
    append_number(header, messages.size(), 8);
    return add(header + messages);
  }

  std::string content_of(const Node::Attribute& attribute) const {
    if (!attribute.is_reference) return attribute.content;
    // Length, address of the collection, index.
    std::string reference = attribute.content.substr(0, 4);
    append_number(reference, heap_at_, 8);
    return reference + attribute.content.substr(4);
  }

  GroupAddresses add_links(const Node& node) {
    std::string names(8, '\0');  // the empty name is the first key
    std::vector<std::string> blocks;
    std::vector<std::uint64_t> keys{0};
    std::size_t in_block = 0, last_name = 0;
    for (const auto& [name, child] : node.children) {
      if (in_block == 0) blocks.emplace_back();
      last_name = names.size();
      names.append(name).push_back('\0');
      pad_to_8(names);
      append_number(blocks.back(), last_name, 8);
      append_number(blocks.back(), add_object(*child), 8);
      blocks.back().append(24, '\0');  // nothing cached
      in_block = (in_block + 1) % (2 * kLeafRank);
      if (in_block == 0) keys.push_back(last_name);
    }
    if (in_block != 0) keys.push_back(last_name);
    const std::uint64_t tree = add_tree(blocks, keys);
    const std::uint64_t data = add(names);
    return {tree, add(hdf5_local_heap(names.size(), data))};
  }

  std::uint64_t add_tree(const std::vector<std::string>& blocks,
                         const std::vector<std::uint64_t>& keys) {
    std::string node("TREE\0\0", 6);
    append_number(node, blocks.size(), 2);
    append_number(node, kHdf5Nowhere, 8);  // siblings
    append_number(node, kHdf5Nowhere, 8);
    append_number(node, keys[0], 8);
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      std::string block("SNOD\1\0", 6);
      append_number(block, blocks[i].size() / kSymbolBytes, 2);
      block += blocks[i];
      block.resize(8 + 2 * kLeafRank * kSymbolBytes);
      append_number(node, add(block), 8);
      append_number(node, keys[i + 1], 8);
    }
    node.resize(24 + 8 + 2 * tree_rank_ * 16);
    return add(node);
  }

  std::string superblock() const {
    std::string block("\x89HDF\r\n\x1a\n", 8);
    append_number(block, 0, 5);  // versions
    append_number(block, 8, 1);  // bytes of addresses and of lengths
    append_number(block, 8, 1);
    append_number(block, 0, 1);
    append_number(block, kLeafRank, 2);
    append_number(block, tree_rank_, 2);
    append_number(block, 0, 4);
    append_number(block, 0, 8);  // where the file begins
    append_number(block, kHdf5Nowhere, 8);
    append_number(block, meta_at_ + meta_.size(), 8);
    append_number(block, kHdf5Nowhere, 8);
    append_number(block, 0, 8);  // the root group: no name, header, B-tree and heap
    append_number(block, root_, 8);
    append_number(block, 1, 8);
    append_number(block, root_group_.tree, 8);
    append_number(block, root_group_.heap, 8);
    SLUICE_ASSERT(block.size() == kSuperblockBytes);
    return block;
  }

  const Hdf5Writer& writer_;
  std::map<const Node*, std::uint64_t> addresses_;
  std::vector<const Node*> in_order_;
  std::uint64_t data_end_ = kSuperblockBytes;
  std::uint64_t heap_at_ = 0, meta_at_ = 0, root_ = 0;
  GroupAddresses root_group_{};
  std::size_t tree_rank_ = kLeastTreeRank;
  std::string meta_;
};

Hdf5Writer::Hdf5Writer() : root_(std::make_unique<Node>()) {}
Hdf5Writer::~Hdf5Writer() = default;

/// The node of a path, made with the groups above it.
Hdf5Writer::Node& Hdf5Writer::make(std::string_view path, std::string_view kind) {
  Node* node = root_.get();
  std::string_view rest = path;
  while (true) {
    rest.remove_prefix(std::min(rest.find_first_not_of('/'), rest.size()));
    if (rest.empty()) return *node;
    const std::string name(rest.substr(0, rest.find('/')));
    rest.remove_prefix(name.size());
    SLUICE_CHECK(name.find('\0') == std::string::npos && name != ".",
                 "{} {} has a name that HDF5 cannot hold", kind, quote_name(path));
    SLUICE_CHECK(!node->is_dataset, "{} {} would lie in a dataset", kind, quote_name(path));
    std::unique_ptr<Node>& child = node->children[name];
    if (child == nullptr) child = std::make_unique<Node>();
    node = child.get();
  }
}

void Hdf5Writer::add_group(std::string_view path) {
  SLUICE_CHECK(!make(path, "group").is_dataset, "group {} is a dataset already", quote_name(path));
}

void Hdf5Writer::add_dataset(std::string_view path, DType dtype, const Shape& shape,
                             std::span<const std::byte> data) {
  hdf5_number_type(dtype);  // refuses bfloat16
  const std::size_t needed =
      base::checked_mul(static_cast<std::size_t>(shape.element_count()), base::size_of(dtype));
  SLUICE_CHECK(data.size() == needed, "dataset {} has {} bytes, but its dtype and shape ask for {}",
               quote_name(path), data.size(), needed);
  Node& node = make(path, "dataset");
  SLUICE_CHECK(&node != root_.get() && !node.is_dataset && node.children.empty(),
               "dataset {} is there already", quote_name(path));
  node.is_dataset = true;
  node.dtype = dtype;
  node.shape = shape;
  node.data = data;
}

void Hdf5Writer::set_attribute(std::string_view path, std::string_view name, std::string type,
                               std::string space, std::string content, bool is_reference) {
  Node* node = root_.get();
  std::string_view rest = path;
  while (true) {
    rest.remove_prefix(std::min(rest.find_first_not_of('/'), rest.size()));
    if (rest.empty()) break;
    const std::string_view part = rest.substr(0, rest.find('/'));
    rest.remove_prefix(part.size());
    const auto found = node->children.find(part);
    SLUICE_CHECK(found != node->children.end(), "there is no {} for the attribute {}",
                 quote_name(path), quote_name(name));
    node = found->second.get();
  }
  SLUICE_CHECK(!name.empty() && name.find('\0') == std::string_view::npos,
               "{} cannot be the name of an attribute", quote_name(name));
  for (const Node::Attribute& other : node->attributes) {
    SLUICE_CHECK(other.name != name, "{} has the attribute {} already", quote_name(path),
                 quote_name(name));
  }
  const std::string start = hdf5_attribute_start(name, type, space);
  if (start.size() + content.size() > kLargestMessage ||
      node->attributes.size() + 8 > kMostMessages) {
    base::fail(ErrorCode::kUnsupported,
               "attribute {} of {} has {} bytes; an attribute holds at most {}, so split it",
               quote_name(name), quote_name(path), content.size(), kLargestMessage - start.size());
  }
  node->attributes.push_back({std::string(name), start, std::move(content), is_reference});
}

void Hdf5Writer::set_text(std::string_view path, std::string_view name, std::string_view text) {
  SLUICE_CHECK(texts_.size() < kMostTexts, "a file holds at most {} texts", kMostTexts);
  SLUICE_CHECK(text.size() <= UINT32_MAX, "a text has {} bytes; at most {} are written",
               text.size(), UINT32_MAX);
  // An empty text is never stored, but the heap's indexes count on one for each.
  std::string reference;
  append_number(reference, text.size(), 4);
  append_number(reference, texts_.size() + 1, 4);
  set_attribute(path, name, hdf5_variable_text_type(), hdf5_space({}), std::move(reference), true);
  texts_.emplace_back(text);
}

void Hdf5Writer::set_texts(std::string_view path, std::string_view name,
                           std::span<const std::string> texts) {
  std::size_t longest = 1;
  for (const std::string& text : texts) longest = std::max(longest, text.size());
  std::string content;
  for (const std::string& text : texts) {
    content += text;
    content.append(longest - text.size(), '\0');
  }
  const std::int64_t count = std::ssize(texts);
  set_attribute(path, name, hdf5_fixed_text_type(longest), hdf5_space({&count, 1}),
                std::move(content), false);
}

void Hdf5Writer::set_integer(std::string_view path, std::string_view name, std::int64_t value) {
  std::string content;
  append_number(content, static_cast<std::uint64_t>(value), sizeof(value));
  set_attribute(path, name, hdf5_number_type(DType::kInt64), hdf5_space({}), std::move(content),
                false);
}

void Hdf5Writer::set_number(std::string_view path, std::string_view name, double value) {
  std::string content;
  append_number(content, std::bit_cast<std::uint64_t>(value), sizeof(value));
  set_attribute(path, name, hdf5_number_type(DType::kFloat64), hdf5_space({}), std::move(content),
                false);
}

void Hdf5Writer::write(const std::filesystem::path& path) const {
  const Layout layout(*this);
  OutputFile file(path);
  layout.write([&](std::span<const std::byte> part) { file.write(part); });
  file.commit();
}

std::vector<std::byte> Hdf5Writer::bytes() const {
  std::vector<std::byte> bytes;
  Layout(*this).write([&](std::span<const std::byte> part) {
    bytes.insert(bytes.end(), part.begin(), part.end());
  });
  return bytes;
}

}  // namespace sluice::io::formats
