#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace sluice::io {

/// What a checkpoint stores of a vocabulary: one line of text (magic, revision, kind, payload size,
/// CRC-32), then the payload.
struct ChecksummedBlob {
  std::string_view kind;
  std::string_view payload;  ///< a view of the bytes that were read
};

/// Reads and writes such bytes.
struct BlobFormat {
  std::string_view magic;  ///< the line's first word: "sluice-tokenizer"
  std::string_view what;   ///< for messages: "tokenizer"
  std::uint64_t revision = 1;

  std::string write(std::string_view kind, std::string_view payload) const;
  /// The inverse. Throws ErrorCode::kFormat if `bytes` do not begin so, are damaged or truncated,
  /// or of another revision.
  ChecksummedBlob read(std::string_view bytes) const;
};

}  // namespace sluice::io
