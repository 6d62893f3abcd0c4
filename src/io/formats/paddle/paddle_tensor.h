#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "io/byte_source.h"
#include "io/formats/number_type.h"
#include "io/host_tensor.h"

namespace sluice::io::formats {

/// A tensor in a file of Paddle (class LoDTensor). The file has: a version of 4 bytes (0); the
/// number of levels of sequences in 8, and for each its size in 8 bytes and its content; another
/// version of 4 bytes (0); the size of a message TensorDesc in 4, and the message; the numbers.
struct PaddleTensor {
  NumberType type;
  std::vector<std::int64_t> sizes;   ///< row-major, outermost first
  std::uint64_t begin = 0, end = 0;  ///< bytes of the numbers in the file
};

/// The tensor that begins at the byte `offset`. The next one of a file that combines several begins
/// at its end. Errors are ErrorCode::kFormat and name the file; element types without a
/// NumberType are kUnsupported. Takes no memory for the numbers.
PaddleTensor find_paddle_tensor(const ByteSource& source, std::uint64_t offset);

/// The numbers. Memory: at most three times their size.
HostTensor read_paddle_tensor(const ByteSource& source, const PaddleTensor& tensor);
/// The tensor of a file that holds nothing else.
HostTensor read_paddle_tensor(const ByteSource& source);
HostTensor read_paddle_tensor(const std::filesystem::path& path);

}  // namespace sluice::io::formats
