#include <algorithm>
#include <array>

#include "base/check.h"
#include "io/formats/torch/torch_storages.h"
#include "io/formats/torch/torch_tree.h"
#include "io/safetensors_header.h"

namespace sluice::io::formats {
namespace {

/// The long 0x1950a86a20f9469cfc6c, little-endian, which begins the file.
constexpr std::string_view kMagic = "\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";
constexpr std::int64_t kProtocol = 1001;
/// The pickles of most files lie in so many first bytes; more are read when they do not.
constexpr std::uint64_t kFirstBytes = 1 << 20, kMostBytes = std::uint64_t{256} << 20;

std::shared_ptr<const std::string> read_head(const ByteSource& source, std::uint64_t bytes) {
  std::string head(static_cast<std::size_t>(std::min(bytes, source.size())), '\0');
  source.read_at(0, std::as_writable_bytes(std::span(head)));
  return std::make_shared<const std::string>(std::move(head));
}

}  // namespace

TorchLegacy::TorchLegacy(ByteSource source)
    : source_(std::move(source)), head_(read_head(source_, kFirstBytes)) {
  const Pickle magic = next_pickle();
  if (!magic.root().is(PickleKind::kBigInt) || magic.root().text() != kMagic) {
    base::fail(ErrorCode::kFormat, "{} is a pickle, but not one that torch.save has written",
               where());
  }
  const Pickle protocol = next_pickle();
  if (!protocol.root().is(PickleKind::kInt) || protocol.root().integer() != kProtocol) {
    base::fail(ErrorCode::kFormat, "{}: its version of PyTorch's format is not {}", where(),
               kProtocol);
  }
  check_system(next_pickle().root());
  pickle_ = next_pickle();
  const Pickle keys = next_pickle();
  find_storages(keys.root());
  head_.reset();
}

Pickle TorchLegacy::next_pickle() {
  while (true) {
    auto pickle = Pickle::parse_prefix(head_, static_cast<std::size_t>(at_), where());
    if (pickle) {
      at_ += pickle->size();
      return std::move(*pickle);
    }
    const std::uint64_t held = head_->size();
    if (held == source_.size() || held >= kMostBytes) {
      base::fail(ErrorCode::kFormat,
                 "{}: it ends, or has {} bytes, before its pickles end; copy it "
                 "again",
                 where(), held);
    }
    head_ = read_head(source_, 16 * held);
  }
}

void TorchLegacy::check_system(const PickleValue& system) const {
  const PickleValue* order = system.is(PickleKind::kDict) ? system.find("little_endian") : nullptr;
  if (order == nullptr || !order->is(PickleKind::kBool)) {
    base::fail(ErrorCode::kFormat, "{}: it does not state its byte order", where());
  }
  if (!order->truth()) {
    base::fail(ErrorCode::kUnsupported, "{} is big-endian; only little-endian files are read",
               where());
  }
}

/// Behind the pickles stand, for each key in their order, the number of elements in 8 bytes and the
/// elements.
void TorchLegacy::find_storages(const PickleValue& keys) {
  std::map<std::string_view, std::size_t> element_bytes;
  for (const PickleValue& value : pickle_->values()) {
    if (!value.is(PickleKind::kPersistentId)) continue;
    const PickleValue& id = *value.items()[0];
    const bool is_class = id.is(PickleKind::kTuple) && !id.items().empty() &&
                          id.items()[0]->is_text() && id.items()[0]->text() == "module";
    if (is_class) continue;
    const TorchStorageId storage = torch_storage_id(value, where());
    element_bytes[storage.key] = storage.element_bytes;
  }
  if (!keys.is(PickleKind::kList)) {
    base::fail(ErrorCode::kFormat, "{}: it has no list of its storages", where());
  }
  for (const PickleValue* key : keys.items()) {
    const auto found = key->is_text() ? element_bytes.find(key->text()) : element_bytes.end();
    if (found == element_bytes.end() || found->second == 0) {
      base::fail(ErrorCode::kFormat, "{}: no tensor tells the type of a storage", where());
    }
    std::uint64_t count = 0;
    const std::uint64_t left = source_.size() - at_;
    if (left >= sizeof(count)) {
      source_.read_at(at_, std::as_writable_bytes(std::span(&count, 1)));
      at_ += sizeof(count);
    }
    if (left < sizeof(count) || count > (left - sizeof(count)) / found->second) {
      base::fail(ErrorCode::kFormat, "{}: storage {} is cut off; copy the file again", where(),
                 quote_name(key->text()));
    }
    const Range range{at_, count * found->second};
    at_ += range.bytes;
    if (!ranges_.emplace(key->text(), range).second) {
      base::fail(ErrorCode::kFormat, "{}: storage {} stands there twice", where(),
                 quote_name(key->text()));
    }
  }
}

std::optional<std::uint64_t> TorchLegacy::bytes_of(std::string_view key) const {
  const auto found = ranges_.find(key);
  if (found == ranges_.end()) return std::nullopt;
  return found->second.bytes;
}

std::vector<std::byte> TorchLegacy::read(std::string_view key) {
  const Range& range = ranges_.find(key)->second;
  std::vector<std::byte> content(static_cast<std::size_t>(range.bytes));
  source_.read_at(range.begin, content);
  return content;
}

}  // namespace sluice::io::formats
