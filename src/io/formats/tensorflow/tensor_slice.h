#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/formats/proto_reader.h"
#include "io/host_tensor.h"

namespace sluice::io::formats {

/// A part of a partitioned variable (message TensorSliceProto): a range of each axis.
struct TensorSlice {
  struct Range {
    std::int64_t start = 0;
    std::int64_t length = -1;  ///< -1: the whole axis
  };
  std::vector<Range> ranges;
};

TensorSlice read_tensor_slice(ProtoReader reader);

/// The key under which checkpoints store a slice of the variable `name`: TensorFlow's ordered code
/// of 0, name, rank and ranges.
std::string tensor_slice_key(std::string_view name, const TensorSlice& slice);

/// The slice with every length known, checked against the variable's sizes (ErrorCode::kFormat).
/// `what` describes the variable.
TensorSlice resolve_slice(const TensorSlice& slice, std::span<const std::int64_t> sizes,
                          std::string_view what);

/// The number of elements of a resolved slice.
std::uint64_t slice_count(const TensorSlice& slice);

/// Checks that resolved slices hold as many elements as the whole variable.
void check_slice_counts(std::span<const TensorSlice> slices, std::uint64_t count,
                        std::string_view what);

/// Puts slices into the tensor that they are parts of.
class SliceJoiner {
 public:
  /// Borrows `tensor`.
  SliceJoiner(HostTensor& tensor, std::string_view what);
  /// Copies the elements of a resolved slice. Refuses a second value for an element
  /// (ErrorCode::kFormat).
  void add(const TensorSlice& slice, std::span<const std::byte> data);

 private:
  void add_axis(const TensorSlice& slice, std::size_t axis, std::size_t element,
                std::span<const std::byte>& data);

  HostTensor& tensor_;
  std::string what_;
  std::size_t width_;
  std::vector<bool> covered_;
};

}  // namespace sluice::io::formats
