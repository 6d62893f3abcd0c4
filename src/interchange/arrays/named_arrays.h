#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/host_tensor.h"

namespace sluice::interchange {

/// Tensors by their names, whatever file holds them. They are read one at a time.
class NamedArrays {
 public:
  struct Entry {
    std::string name;
    std::vector<std::int64_t> sizes;  ///< axes, outermost first
  };
  using Read = std::function<io::HostTensor(const std::string& name)>;

  NamedArrays(std::string format, std::filesystem::path path, std::vector<Entry> entries, Read read,
              bool is_ordered);

  /// "a PyTorch file (.pt)"
  const std::string& format() const { return format_; }
  const std::filesystem::path& path() const { return path_; }
  /// In the order of the file.
  const std::vector<Entry>& entries() const { return entries_; }
  /// Whether the order of the file is that in which a program made the tensors.
  bool is_ordered() const { return is_ordered_; }
  /// Null if there is none of that name.
  const Entry* find(std::string_view name) const;
  /// The tensor in float32; throws ErrorCode::kNotFound if there is none.
  io::HostTensor read(std::string_view name) const;

 private:
  std::string format_;
  std::filesystem::path path_;
  std::vector<Entry> entries_;
  Read read_;
  bool is_ordered_;
};

/// The tensors of a file of safetensors, PyTorch, NumPy (.npz, .npy) or pickle. Throws as the
/// readers of these formats.
NamedArrays open_safetensors_arrays(const std::filesystem::path& path);
NamedArrays open_torch_arrays(const std::filesystem::path& path);
NamedArrays open_npz_arrays(const std::filesystem::path& path);
/// One array, named as the file is without its ending.
NamedArrays open_npy_array(const std::filesystem::path& path);
/// Arrays of NumPy in dicts, lists, tuples and objects' attributes, by dotted names.
NamedArrays open_pickle_arrays(const std::filesystem::path& path);

}  // namespace sluice::interchange
