#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "io/formats/tensorflow/sorted_table.h"
#include "io/formats/tensorflow/tensor_slice.h"
#include "io/formats/tensorflow/tensorflow_checkpoint.h"

namespace sluice::io::formats {

/// Reads V1 checkpoints, one sorted table of SavedTensorSlices messages; see TensorflowCheckpoint.
/// The files of a sharded save are read one by one.
class TensorSlicesFile final : public CheckpointReader {
 public:
  /// `header` is the value of the table's empty key.
  TensorSlicesFile(SortedTable table, std::string_view header);

  HostTensor read(std::size_t index) const override;
  /// Always refused: variables of strings are no weights.
  std::vector<std::string> read_strings(std::size_t index) const override;

 private:
  /// A variable and its slices.
  struct Saved {
    CheckpointTensor tensor;
    std::vector<TensorSlice> slices;
  };

  void read_meta(ProtoReader reader);
  Saved read_saved(ProtoReader reader) const;
  std::string what(const CheckpointTensor& tensor) const;
  StoredTensor read_slice(const CheckpointTensor& tensor, const TensorSlice& slice,
                          std::uint64_t count) const;

  SortedTable table_;
  std::vector<Saved> saved_;
  std::vector<std::vector<TensorSlice>> slices_;  ///< of each tensor, in the order of tensors()
};

}  // namespace sluice::io::formats
