#include "io/byte_source.h"

#include <cstring>

#include "base/check.h"

namespace sluice::io {

void ByteSource::read_at(std::uint64_t offset, std::span<std::byte> bytes) const {
  if (file_) return file_->read_at(offset, bytes);
  if (offset > bytes_.size() || bytes.size() > bytes_.size() - offset) {
    base::fail(ErrorCode::kIo, "cannot read '{}': {} bytes from {} on are more than its {}",
               path_.native(), bytes.size(), offset, bytes_.size());
  }
  if (!bytes.empty()) std::memcpy(bytes.data(), bytes_.data() + offset, bytes.size());
}

}  // namespace sluice::io
