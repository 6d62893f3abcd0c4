#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/formats/hdf5/hdf5_group.h"
#include "io/formats/hdf5/hdf5_input.h"
#include "io/formats/hdf5/hdf5_object.h"

namespace sluice::io::formats {

/// A group or a dataset with its links and attributes.
class Hdf5Node {
 public:
  Hdf5Node(Hdf5Input& input, std::uint64_t address) : input_(input), object_(input, address) {}

  const Hdf5Object& object() const { return object_; }
  bool is_group() const { return is_hdf5_group(object_); }
  bool is_dataset() const { return object_.find(Hdf5MessageType::kLayout) != nullptr; }
  /// In the order of read_hdf5_links and read_hdf5_attributes, read once.
  const std::vector<Hdf5Link>& links();
  const std::vector<Hdf5Attribute>& attributes();
  /// Null if there is none.
  const Hdf5Link* find_link(std::string_view name);
  const Hdf5Attribute* find_attribute(std::string_view name);

 private:
  Hdf5Input& input_;
  Hdf5Object object_;
  std::optional<std::vector<Hdf5Link>> links_;
  std::map<std::string_view, const Hdf5Link*> index_;
  std::optional<std::vector<Hdf5Attribute>> attributes_;
};

/// The nodes of a file, each read once.
class Hdf5Tree {
 public:
  /// Reads the superblock.
  explicit Hdf5Tree(Hdf5Input& input);

  /// Null if there is none of that path. Throws ErrorCode::kUnsupported for links into other
  /// places.
  Hdf5Node* find(std::string_view path);
  Hdf5Node& at(std::uint64_t address);

 private:
  void read_superblock();

  Hdf5Input& input_;
  std::uint64_t root_ = kHdf5Nowhere;
  std::map<std::uint64_t, std::unique_ptr<Hdf5Node>> nodes_;
};

}  // namespace sluice::io::formats
