#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "io/formats/torch/torch_storages.h"
#include "io/formats/torch/torch_tree.h"
#include "io/host_tensor.h"

namespace sluice::io::formats {

enum class TorchFormat : std::uint8_t { kZip, kTorchScript, kLegacy };

/// A file of torch.save (the zip format and the one before PyTorch 1.6) or of torch.jit.save:
/// state dicts, dicts of them, whole modules. Nothing of it is executed; classes need not be known.
/// Opening reads the pickle and checks every tensor against the storages. It takes at most 256
/// times the pickle's size of memory, read() that of one storage and of the tensor. All tensors
/// together are at most 8 times as large as the file, plus 1 MiB, though expanded ones could be
/// more. Throws ErrorCode::kFormat for damaged files, kUnsupported for the tar files of PyTorch
/// 0.1, big-endian files and compressed zip files.
class TorchFile {
 public:
  static TorchFile open(const std::filesystem::path& path);

  TorchFormat format() const { return format_; }
  const std::filesystem::path& path() const { return path_; }
  /// By their dotted names, in the order of the file; also those that read() refuses.
  const std::vector<TorchTensor>& tensors() const { return tree_.tensors; }
  /// Numbers, texts, None and names of classes and dtypes.
  const std::vector<TorchValue>& values() const { return tree_.values; }

  /// Null if there is none of that name.
  const TorchTensor* find(std::string_view name) const;
  /// A dense copy, row-major; dtypes as dtype_for. Throws ErrorCode::kNotFound, and kUnsupported
  /// for quantized, sparse, nested and complex tensors and for those of more than 6 axes.
  HostTensor read(std::string_view name);
  HostTensor read(const TorchTensor& tensor);

 private:
  TorchFile() = default;
  void check_tensors() const;

  std::filesystem::path path_;
  TorchFormat format_ = TorchFormat::kZip;
  std::unique_ptr<TorchStorages> storages_;
  TorchTree tree_;
  // Tensors of one storage often follow each other.
  std::string held_key_;
  std::vector<std::byte> held_;
};

}  // namespace sluice::io::formats
