#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/formats/tensorflow/sorted_table.h"
#include "io/formats/tensorflow/tensor_slice.h"
#include "io/formats/tensorflow/tensorflow_checkpoint.h"

namespace sluice::io::formats {

/// Reads TensorFlow's tensor bundles (V2 checkpoints); see TensorflowCheckpoint.
class TensorBundle final : public CheckpointReader {
 public:
  /// `header` is the value of the index's empty key.
  TensorBundle(SortedTable index, std::string_view header,
               TensorflowCheckpoint::OpenShard open_shard);

  HostTensor read(std::size_t index) const override;
  std::vector<std::string> read_strings(std::size_t index) const override;

 private:
  /// A BundleEntryProto: a tensor or a slice of one, and where its bytes are.
  struct Entry {
    std::string key;
    const ElementType* type = nullptr;
    std::vector<std::int64_t> sizes;
    std::uint32_t shard = 0;
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
    std::uint32_t checksum = 0;
    std::vector<TensorSlice> slices;
  };

  void read_header(std::string_view header);
  void read_entries();
  Entry read_entry(std::string_view key, std::string_view value) const;
  void check_entry(const Entry& entry) const;
  void check_places() const;
  const Entry& find(std::string_view key, std::string_view what) const;
  const Entry& tensor_entry(std::size_t index) const;
  std::vector<std::byte> read_bytes(const Entry& entry) const;
  ByteSource checked_shard(const Entry& entry) const;
  void check_sum(const Entry& entry, std::string_view bytes) const;
  HostTensor read_slices(const Entry& entry) const;
  std::vector<std::string> split_strings(const Entry& entry, std::string_view bytes) const;
  std::uint32_t take_length(const Entry& entry, std::string_view& bytes) const;
  std::string what(const Entry& entry) const;

  SortedTable index_;
  TensorflowCheckpoint::OpenShard open_shard_;
  std::uint32_t shards_ = 0;
  std::vector<Entry> entries_;         ///< sorted by key
  std::vector<std::size_t> entry_of_;  ///< of each tensor, in the order of tensors()
};

}  // namespace sluice::io::formats
