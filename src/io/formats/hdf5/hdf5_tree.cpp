#include "io/formats/hdf5/hdf5_tree.h"

#include <algorithm>

#include "io/safetensors_header.h"

namespace sluice::io::formats {
namespace {

constexpr std::string_view kSignature = "\x89HDF\r\n\x1a\n";

}  // namespace

const std::vector<Hdf5Link>& Hdf5Node::links() {
  if (!links_) {
    links_ = is_group() ? read_hdf5_links(input_, object_) : std::vector<Hdf5Link>();
    for (const Hdf5Link& link : *links_) {
      if (!index_.emplace(link.name, &link).second) {
        input_.refuse(object_.address(), "a group has the name {} twice", quote_name(link.name));
      }
    }
  }
  return *links_;
}

const std::vector<Hdf5Attribute>& Hdf5Node::attributes() {
  if (!attributes_) attributes_ = read_hdf5_attributes(input_, object_);
  return *attributes_;
}

const Hdf5Link* Hdf5Node::find_link(std::string_view name) {
  links();
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : found->second;
}

const Hdf5Attribute* Hdf5Node::find_attribute(std::string_view name) {
  const std::vector<Hdf5Attribute>& all = attributes();
  const auto found = std::find_if(all.begin(), all.end(), [&](const Hdf5Attribute& attribute) {
    return attribute.name == name;
  });
  return found == all.end() ? nullptr : &*found;
}

Hdf5Tree::Hdf5Tree(Hdf5Input& input) : input_(input) { read_superblock(); }

void Hdf5Tree::read_superblock() {
  constexpr std::size_t kOldBytes = 96, kNewBytes = 48;
  if (input_.size() < kNewBytes || input_.take(0, kSignature.size()) != kSignature) {
    base::fail(ErrorCode::kFormat, "{} is no HDF5 file", input_.name());
  }
  const std::uint8_t version = Hdf5Cursor(input_, input_.take(8, 1), 8).u8();
  const bool is_new = version >= 2;
  if (version > 3) {
    base::fail(ErrorCode::kUnsupported, "{} has version {} of the superblock; known are 0 to 3",
               input_.name(), version);
  }
  const std::size_t bytes = is_new ? kNewBytes : kOldBytes + (version == 1 ? 4 : 0);
  const std::string block = input_.take(0, bytes);
  if (is_new) input_.check_sum(block, 0);
  Hdf5Cursor cursor(input_, block, 0);
  cursor.skip(is_new ? 9 : 13);
  const std::uint8_t offset_bytes = cursor.u8(), length_bytes = cursor.u8();
  if (offset_bytes != 8 || length_bytes != 8) {
    input_.refuse_feature("addresses of other than 8 bytes");
  }
  cursor.skip(is_new ? 1 : 1 + 4 + 4 + (version == 1 ? 4 : 0));
  if (cursor.u64() != 0) input_.refuse_feature("a user block");
  cursor.skip(is_new ? 16 : 24 + 8);
  root_ = cursor.u64();
}

Hdf5Node& Hdf5Tree::at(std::uint64_t address) {
  std::unique_ptr<Hdf5Node>& node = nodes_[address];
  if (node == nullptr) node = std::make_unique<Hdf5Node>(input_, address);
  return *node;
}

Hdf5Node* Hdf5Tree::find(std::string_view path) {
  Hdf5Node* node = &at(root_);
  while (true) {
    path.remove_prefix(std::min(path.find_first_not_of('/'), path.size()));
    if (path.empty()) return node;
    const std::string_view name = path.substr(0, path.find('/'));
    path.remove_prefix(name.size());
    const Hdf5Link* link = node->find_link(name);
    if (link == nullptr) return nullptr;
    if (link->kind != Hdf5LinkKind::kHard) {
      input_.refuse_feature("a soft or external link " + quote_name(name));
    }
    node = &at(link->address);
  }
}

}  // namespace sluice::io::formats
