#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/byte_source.h"
#include "io/formats/stored_tensor.h"
#include "io/host_tensor.h"

namespace sluice::io::formats {

/// A variable in a checkpoint of TensorFlow.
struct CheckpointTensor {
  std::string name;
  const ElementType* type = nullptr;  ///< never null; its dtype is absent if Sluice lacks it
  std::vector<std::int64_t> sizes;    ///< of the whole variable, outermost first
  bool is_partitioned = false;        ///< stored in slices, which reading joins
};

/// One revision of the format; TensorflowCheckpoint picks it.
class CheckpointReader {
 public:
  virtual ~CheckpointReader() = default;
  /// Sorted by name.
  const std::vector<CheckpointTensor>& tensors() const { return tensors_; }
  virtual HostTensor read(std::size_t index) const = 0;
  virtual std::vector<std::string> read_strings(std::size_t index) const = 0;

 protected:
  std::vector<CheckpointTensor> tensors_;
};

/// A checkpoint of TensorFlow: a bundle (V2: `<prefix>.index` and `<prefix>.data-0000i-of-0000n`,
/// written by tf.train.Checkpoint, Keras, SavedModel and Saver) or a V1 file of Saver. The content
/// decides which it is.
///
/// Opening reads the index and checks names, types, shapes and places; tensors are read one at a
/// time, and their checksums compared. Memory: at most 64 times the bytes of the index (V1: of the
/// file), and at most 3 times a tensor's size in its file while it is read (V1: 16 times).
///
/// Errors are ErrorCode::kFormat and name the file and the variable. Refused with
/// ErrorCode::kUnsupported: big-endian bundles, versions from the future, compressed blocks, types
/// and ranks that HostTensor lacks (when read).
class TensorflowCheckpoint {
 public:
  /// `path` is a bundle's prefix or its index file, or a V1 file. Throws ErrorCode::kNotFound if
  /// none of these is there.
  static TensorflowCheckpoint open(const std::filesystem::path& path);

  /// Opens shard `shard` of `shards` of a bundle.
  using OpenShard = std::function<ByteSource(std::uint32_t shard, std::uint32_t shards)>;
  /// `table` is the index of a bundle or a V1 file, which does not call `open_shard`.
  static TensorflowCheckpoint open(ByteSource table, OpenShard open_shard);

  /// The index of a bundle, or the V1 file.
  const std::filesystem::path& path() const { return path_; }
  bool is_v1() const { return is_v1_; }

  /// Sorted by name.
  const std::vector<CheckpointTensor>& tensors() const { return reader_->tensors(); }
  /// Null if there is none of that name.
  const CheckpointTensor* find(std::string_view name) const;

  /// Reads a variable. Throws ErrorCode::kNotFound if there is none of that name.
  HostTensor read(std::string_view name) const;
  /// Reads a variable of strings, row-major. Bundles only.
  std::vector<std::string> read_strings(std::string_view name) const;

 private:
  TensorflowCheckpoint() = default;
  std::size_t index_of(std::string_view name) const;

  std::filesystem::path path_;
  bool is_v1_ = false;
  std::shared_ptr<const CheckpointReader> reader_;
};

}  // namespace sluice::io::formats
