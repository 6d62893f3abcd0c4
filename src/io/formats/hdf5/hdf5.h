#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "io/byte_source.h"
#include "io/formats/hdf5/hdf5_data.h"
#include "io/host_tensor.h"

namespace sluice::io::formats {

enum class Hdf5Kind : std::uint8_t { kGroup, kDataset, kOther };

/// An HDF5 file as h5py and Keras write it: groups, attributes, and datasets of numbers, bools and
/// texts. Paths have slashes between names; "" and "/" are the root group.
///
/// Read are superblock versions 0 to 3, groups and attributes of HDF5 1.6 and 1.8, and contiguous,
/// compact and chunked datasets, with gzip and shuffle. Refused by name (ErrorCode::kUnsupported)
/// are compound and other types, named types, references, soft and external links, other filters,
/// chunk indexes of HDF5 1.10, virtual datasets and user blocks.
///
/// Memory: what describes groups and datasets takes at most 64 times the file's size, and is kept.
/// A value takes at most 96 times the file's size plus 4 MiB while it is read, and itself at most
/// 32 times the file's size plus 2 MiB. Damage is ErrorCode::kFormat with file and byte.
class Hdf5File {
 public:
  static Hdf5File open(const std::filesystem::path& path);
  static Hdf5File open(ByteSource source);
  ~Hdf5File();
  Hdf5File(Hdf5File&&) noexcept;

  bool has(std::string_view path);
  /// Throws ErrorCode::kNotFound, as all that follow.
  Hdf5Kind kind(std::string_view path);
  /// The names in a group, in the order of their creation if the file keeps it, else by name.
  std::vector<std::string> children(std::string_view path);
  /// The paths of all datasets below a group, each dataset once, by the order of children(). Soft
  /// links are left out. Groups deeper than 64 levels are refused.
  std::vector<std::string> dataset_paths(std::string_view path = "");

  std::vector<std::string> attribute_names(std::string_view path);
  bool has_attribute(std::string_view path, std::string_view name);
  Hdf5Value attribute(std::string_view path, std::string_view name);
  /// The text of an attribute that has just one.
  std::string attribute_text(std::string_view path, std::string_view name);
  /// The texts of an attribute, such as Keras's layer_names; also an empty array of any type.
  std::vector<std::string> attribute_texts(std::string_view path, std::string_view name);

  struct Description {
    std::vector<std::int64_t> sizes;
    std::string type_name;  ///< "float32", "bool", "text"
  };
  /// Shape and type of a dataset, without its elements.
  Description describe(std::string_view path);
  /// A dataset. bfloat16 is what Keras marks by the attribute dtype = "bfloat16".
  Hdf5Value read(std::string_view path);
  /// A dataset of numbers; dtypes as dtype_for.
  HostTensor read_tensor(std::string_view path);
  /// A dataset of texts.
  std::vector<std::string> read_texts(std::string_view path);

 private:
  class Impl;
  explicit Hdf5File(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice::io::formats
