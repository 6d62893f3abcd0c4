#include "io/formats/tensorflow/tensor_bundle.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <protozero/varint.hpp>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "io/crc32c.h"
#include "io/formats/tensorflow/tensorflow_types.h"
#include "io/safetensors_header.h"

namespace sluice::io::formats {
namespace {

using base::fail;

constexpr std::int32_t kNewestVersion = 1;
/// The names of data files have five digits.
constexpr std::int64_t kMostShards = 99'999;

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// A slice's key begins with a zero byte, which names of variables do not.
bool is_slice_key(std::string_view key) { return key.starts_with('\0'); }

std::int32_t min_consumer(ProtoReader version) {
  std::int32_t consumer = 0;
  while (version.next()) {
    if (version.tag() == 2) consumer = version.int32();
  }
  return consumer;
}

}  // namespace

TensorBundle::TensorBundle(SortedTable index, std::string_view header,
                           TensorflowCheckpoint::OpenShard open_shard)
    : index_(std::move(index)), open_shard_(std::move(open_shard)) {
  read_header(header);
  read_entries();
  check_places();
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const Entry& entry = entries_[i];
    if (is_slice_key(entry.key)) continue;
    tensors_.push_back({entry.key, entry.type, entry.sizes, !entry.slices.empty()});
    entry_of_.push_back(i);
  }
}

void TensorBundle::read_header(std::string_view header) {
  ProtoReader reader(header, index_.path().native(), "BundleHeaderProto");
  std::int64_t shards = 0;
  while (reader.next()) {
    if (reader.tag() == 1) shards = reader.int64();
    if (reader.tag() == 2 && reader.int64() != 0) {
      reader.refuse_unsupported("says that the data is big-endian, which is not read");
    }
    if (reader.tag() != 3) continue;
    const std::int32_t version = min_consumer(reader.message("VersionDef"));
    if (version > kNewestVersion) {
      reader.refuse_unsupported("asks for readers of version {}; this one knows {}", version,
                                kNewestVersion);
    }
  }
  if (shards < 1 || shards > kMostShards) reader.refuse("states {} data files", shards);
  shards_ = static_cast<std::uint32_t>(shards);
}

/// Counts first, so that the vectors never hold two copies.
void TensorBundle::read_entries() {
  std::size_t entries = 0, tensors = 0;
  index_.visit([&](std::string_view key, std::string_view) {
    ++entries;
    tensors += is_slice_key(key) ? 0u : 1u;
    return true;
  });
  entries_.reserve(entries);
  tensors_.reserve(tensors);
  entry_of_.reserve(tensors);
  index_.visit([&](std::string_view key, std::string_view value) {
    if (!key.empty()) entries_.push_back(read_entry(key, value));
    return true;
  });
}

TensorBundle::Entry TensorBundle::read_entry(std::string_view key, std::string_view value) const {
  Entry entry;
  entry.key = key;
  ProtoReader reader(value, index_.path().native(), "BundleEntryProto");
  reserve_for(reader, 7, entry.slices);
  std::int32_t type = 0;
  std::int64_t shard = 0, offset = 0, bytes = 0;
  while (reader.next()) {
    switch (reader.tag()) {
      case 1:
        type = reader.int32();
        break;
      case 2:
        entry.sizes = read_tensorflow_shape(reader.message("TensorShapeProto")).sizes;
        break;
      case 3:
        shard = reader.int32();
        break;
      case 4:
        offset = reader.int64();
        break;
      case 5:
        bytes = reader.int64();
        break;
      case 6:
        entry.checksum = reader.fixed32();
        break;
      case 7:
        entry.slices.push_back(read_tensor_slice(reader.message("TensorSliceProto")));
    }
  }
  entry.type = find_type(tensorflow_types(), type);
  if (entry.type == nullptr) {
    fail(ErrorCode::kUnsupported, "{} has the element type {}, which is unknown here", what(entry),
         type);
  }
  if (shard < 0 || shard >= shards_ || offset < 0 || bytes < 0 || offset > INT64_MAX - bytes) {
    fail(ErrorCode::kFormat, "{} lies at bytes {} + {} of data file {} of {}", what(entry), offset,
         bytes, shard, shards_);
  }
  entry.shard = static_cast<std::uint32_t>(shard);
  entry.offset = static_cast<std::uint64_t>(offset);
  entry.bytes = static_cast<std::uint64_t>(bytes);
  check_entry(entry);
  return entry;
}

void TensorBundle::check_entry(const Entry& entry) const {
  const std::uint64_t count = checked_count(entry.sizes, what(entry));
  if (!entry.slices.empty()) {
    std::vector<TensorSlice> slices;
    slices.reserve(entry.slices.size());
    for (const TensorSlice& slice : entry.slices) {
      slices.push_back(resolve_slice(slice, entry.sizes, what(entry)));
    }
    return check_slice_counts(slices, count, what(entry));
  }
  const std::uint64_t width = entry.type->bytes;
  // A string has at least a byte of length, and all lengths a checksum of 4 bytes.
  const bool is_wrong = entry.type->is_string ? entry.bytes < 4 || entry.bytes - 4 < count
                                              : width > 0 && entry.bytes != count * width;
  if (is_wrong) {
    fail(ErrorCode::kFormat, "{} has {} bytes of data, but {} elements of {}", what(entry),
         entry.bytes, count, entry.type->name);
  }
}

/// Data that several entries share would let a small file ask for much memory.
void TensorBundle::check_places() const {
  std::vector<const Entry*> order;
  order.reserve(entries_.size());
  for (const Entry& entry : entries_) {
    if (entry.bytes > 0) order.push_back(&entry);
  }
  const auto place = [](const Entry* e) { return std::tuple(e->shard, e->offset, e->bytes); };
  std::sort(order.begin(), order.end(),
            [&](const Entry* a, const Entry* b) { return place(a) < place(b); });
  for (std::size_t i = 1; i < order.size(); ++i) {
    const Entry &last = *order[i - 1], &entry = *order[i];
    if (last.shard == entry.shard && last.offset + last.bytes > entry.offset) {
      fail(ErrorCode::kFormat, "{} lies at byte {}, within the data of {}", what(entry),
           entry.offset, quote_name(last.key));
    }
  }
}

std::string TensorBundle::what(const Entry& entry) const {
  return fmt::format("'{}': variable {}", index_.path().native(), quote_name(entry.key));
}

const TensorBundle::Entry& TensorBundle::find(std::string_view key, std::string_view what) const {
  const auto found = std::lower_bound(
      entries_.begin(), entries_.end(), key,
      [](const Entry& entry, std::string_view wanted) { return entry.key < wanted; });
  if (found == entries_.end() || found->key != key) {
    fail(ErrorCode::kFormat, "{} lacks one of its slices; save the checkpoint anew", what);
  }
  return *found;
}

const TensorBundle::Entry& TensorBundle::tensor_entry(std::size_t index) const {
  return entries_[entry_of_[index]];
}

ByteSource TensorBundle::checked_shard(const Entry& entry) const {
  ByteSource shard = open_shard_(entry.shard, shards_);
  if (entry.offset + entry.bytes > shard.size()) {
    fail(ErrorCode::kFormat, "{} ends at byte {} of '{}', which has {}: the file is cut off",
         what(entry), entry.offset + entry.bytes, shard.path().native(), shard.size());
  }
  return shard;
}

void TensorBundle::check_sum(const Entry& entry, std::string_view bytes) const {
  if (masked_crc32c(bytes) == entry.checksum) return;
  fail(ErrorCode::kFormat, "{} does not match its checksum; the data file is damaged", what(entry));
}

std::vector<std::byte> TensorBundle::read_bytes(const Entry& entry) const {
  const ByteSource shard = checked_shard(entry);
  std::vector<std::byte> bytes(static_cast<std::size_t>(entry.bytes));
  shard.read_at(entry.offset, bytes);
  return bytes;
}

HostTensor TensorBundle::read(std::size_t index) const {
  const Entry& entry = tensor_entry(index);
  if (!entry.type->dtype) {
    fail(ErrorCode::kUnsupported, "{} has the element type {}, which Sluice does not read",
         what(entry), entry.type->name);
  }
  if (!entry.slices.empty()) return read_slices(entry);
  const Shape shape = to_shape(entry.sizes, what(entry));
  HostTensor tensor{*entry.type->dtype, shape, read_bytes(entry)};
  check_sum(entry, text_of(tensor.data));
  return tensor;
}

/// Reads every slice before it makes the whole, whose size only the index promises.
HostTensor TensorBundle::read_slices(const Entry& entry) const {
  std::vector<std::pair<TensorSlice, std::vector<std::byte>>> parts;
  for (const TensorSlice& slice : entry.slices) {
    const TensorSlice resolved = resolve_slice(slice, entry.sizes, what(entry));
    const std::uint64_t bytes = slice_count(resolved) * entry.type->bytes;
    if (bytes == 0) continue;
    const Entry& part = find(tensor_slice_key(entry.key, slice), what(entry));
    if (part.type != entry.type || part.bytes != bytes) {
      fail(ErrorCode::kFormat, "{} has a slice of {} bytes where {} belong", what(entry),
           part.bytes, bytes);
    }
    std::vector<std::byte> data = read_bytes(part);
    check_sum(part, text_of(data));
    parts.emplace_back(resolved, std::move(data));
  }
  HostTensor tensor = HostTensor::make(*entry.type->dtype, to_shape(entry.sizes, what(entry)));
  SliceJoiner joiner(tensor, what(entry));
  for (const auto& [slice, data] : parts) joiner.add(slice, data);
  return tensor;
}

std::vector<std::string> TensorBundle::read_strings(std::size_t index) const {
  const Entry& entry = tensor_entry(index);
  SLUICE_CHECK(entry.type->is_string && entry.slices.empty(), "{} does not hold strings",
               what(entry));
  const std::vector<std::byte> bytes = read_bytes(entry);
  return split_strings(entry, text_of(bytes));
}

/// The lengths as varints, the masked checksum of the lengths as 32-bit numbers, the strings. The
/// entry's checksum covers the lengths as 32-bit numbers, their checksum and the strings.
std::vector<std::string> TensorBundle::split_strings(const Entry& entry,
                                                     std::string_view bytes) const {
  std::vector<std::uint32_t> lengths(
      static_cast<std::size_t>(checked_count(entry.sizes, what(entry))));
  for (std::uint32_t& length : lengths) length = take_length(entry, bytes);
  std::string summed(text_of(std::as_bytes(std::span(lengths))));
  const std::uint32_t sum = masked_crc32c(summed);
  if (bytes.size() < sizeof(sum) || std::memcmp(bytes.data(), &sum, sizeof(sum)) != 0) {
    fail(ErrorCode::kFormat, "{} has lengths of strings that do not match their checksum",
         what(entry));
  }
  summed += bytes;
  check_sum(entry, summed);
  bytes.remove_prefix(sizeof(sum));
  std::vector<std::string> strings;
  strings.reserve(lengths.size());
  for (const std::uint32_t length : lengths) {
    strings.emplace_back(bytes.substr(0, length));
    bytes.remove_prefix(strings.back().size());
  }
  if (!bytes.empty() || std::accumulate(lengths.begin(), lengths.end(), std::uint64_t{0}) +
                                sizeof(sum) + lengths.size() >
                            entry.bytes) {
    fail(ErrorCode::kFormat, "{} has strings of other lengths than it says", what(entry));
  }
  return strings;
}

/// Takes a varint from the front of `bytes`.
std::uint32_t TensorBundle::take_length(const Entry& entry, std::string_view& bytes) const {
  const char* at = bytes.data();
  std::uint64_t length = UINT64_MAX;
  try {
    length = protozero::decode_varint(&at, bytes.data() + bytes.size());
  } catch (const protozero::exception&) {
  }
  if (length > UINT32_MAX) {
    fail(ErrorCode::kFormat, "{} has a string whose length cannot be read", what(entry));
  }
  bytes.remove_prefix(static_cast<std::size_t>(at - bytes.data()));
  return static_cast<std::uint32_t>(length);
}

}  // namespace sluice::io::formats
