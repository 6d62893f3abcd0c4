#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/host_tensor.h"

namespace sluice::io::formats {

/// Collects groups, datasets and attributes and writes them in the layout of HDF5 1.6, which h5py
/// and every version of Keras read. Paths have slashes between names; "" is the root group. The
/// file's bytes follow from the calls alone. Throws ErrorCode::kInvalidArgument for a path or an
/// attribute that is there already and for names with a zero byte, kUnsupported for bfloat16 and
/// for what the layout cannot hold.
class Hdf5Writer {
 public:
  Hdf5Writer();
  ~Hdf5Writer();

  /// Makes a group, and those above it. One that is there stays.
  void add_group(std::string_view path);
  /// Adds a dataset, and the groups above it. Borrows `data`, row-major, which must live and stay
  /// unchanged until write().
  void add_dataset(std::string_view path, DType dtype, const Shape& shape,
                   std::span<const std::byte> data);
  void add_dataset(std::string_view path, const HostTensor& tensor) {
    add_dataset(path, tensor.dtype, tensor.shape, tensor.data);
  }

  /// Attributes of a group or dataset that is there. Texts are UTF-8.
  void set_text(std::string_view path, std::string_view name, std::string_view text);
  /// An array of fixed-length texts, as Keras's layer_names; at most 64 kB in all, which is the
  /// layout's limit for one attribute.
  void set_texts(std::string_view path, std::string_view name, std::span<const std::string> texts);
  void set_integer(std::string_view path, std::string_view name, std::int64_t value);
  void set_number(std::string_view path, std::string_view name, double value);

  /// Puts the file in place, whole or not at all. Throws as OutputFile.
  void write(const std::filesystem::path& path) const;
  /// The same as bytes in memory, such as a member of a zip file.
  std::vector<std::byte> bytes() const;

 private:
  struct Node;
  class Layout;

  Node& make(std::string_view path, std::string_view kind);
  void set_attribute(std::string_view path, std::string_view name, std::string type,
                     std::string space, std::string content, bool is_reference);

  std::unique_ptr<Node> root_;
  std::vector<std::string> texts_;  ///< of the global heap; indexes begin at 1
};

}  // namespace sluice::io::formats
