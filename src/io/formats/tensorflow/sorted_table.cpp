#include "io/formats/tensorflow/sorted_table.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <protozero/buffer_string.hpp>
#include <protozero/varint.hpp>
#include <span>
#include <utility>

#include "base/check.h"
#include "io/crc32c.h"

namespace sluice::io::formats {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr std::uint64_t kMagic = 0xdb4775248b80fb57;
constexpr std::size_t kFooterBytes = 48, kTrailerBytes = 5, kWord = sizeof(std::uint32_t);
/// TensorFlow's own size of a block.
constexpr std::size_t kBlockBytes = std::size_t{256} << 10;
/// Keys share prefixes, so a hostile table could spell out far more than it holds.
constexpr std::uint64_t kMostKeyBytesPerByte = 16, kKeyBytesAlways = 65536;

template <typename T>
T number_at(std::string_view bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(value));
  return value;
}

template <typename T>
void append_number(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

/// Takes a varint from the front of `bytes`; false if there is none.
bool take_varint(std::string_view& bytes, std::uint64_t& value) {
  const char* at = bytes.data();
  try {
    value = protozero::decode_varint(&at, bytes.data() + bytes.size());
  } catch (const protozero::exception&) {
    return false;
  }
  bytes.remove_prefix(static_cast<std::size_t>(at - bytes.data()));
  return true;
}

/// Walks the entries of one block. next() returns false at the end or at an error, which error()
/// then describes.
class BlockCursor {
 public:
  explicit BlockCursor(std::string_view block) {
    const std::uint64_t restarts =
        block.size() < kWord ? 0 : number_at<std::uint32_t>(block, block.size() - kWord);
    if (restarts == 0 || restarts > block.size() / kWord - 1) {
      fail("states a number of restart points that it does not hold");
      return;
    }
    entries_ = block.size() - kWord * (static_cast<std::size_t>(restarts) + 1);
    rest_ = block.substr(0, entries_);
    restarts_ = block.substr(entries_, kWord * static_cast<std::size_t>(restarts));
    if (!take_restart(0)) fail("does not begin with a restart point");
  }

  bool next() {
    if (error_ != nullptr || rest_.empty()) return false;
    const std::size_t at = entries_ - rest_.size();
    std::uint64_t shared = 0, fresh = 0, value = 0;
    if (!take_varint(rest_, shared) || !take_varint(rest_, fresh) || !take_varint(rest_, value) ||
        fresh > rest_.size() || value > rest_.size() - fresh) {
      return fail_next("has an entry that goes beyond its end");
    }
    if (shared > key_.size()) return fail_next("has a key that shares more than there is");
    if (take_restart(at) && shared != 0) return fail_next("has a restart point with a shared key");
    return take_entry(static_cast<std::size_t>(shared), static_cast<std::size_t>(fresh),
                      static_cast<std::size_t>(value));
  }

  const std::string& key() const { return key_; }
  std::string_view value() const { return value_; }
  /// Null if all was well, which is certain only after next() returned false.
  const char* error() const {
    if (error_ == nullptr && rest_.empty() && !restarts_.empty()) {
      return "has a restart point where no entry begins";
    }
    return error_;
  }

 private:
  void fail(const char* error) { error_ = error; }
  bool fail_next(const char* error) {
    fail(error);
    return false;
  }

  /// Whether the next restart point is at `at`; takes it then.
  bool take_restart(std::size_t at) {
    if (restarts_.empty() || number_at<std::uint32_t>(restarts_, 0) != at) return false;
    restarts_.remove_prefix(kWord);
    return true;
  }

  /// Sets key and value; compares the new key with the last one where they differ.
  bool take_entry(std::size_t shared, std::size_t fresh, std::size_t value) {
    const std::string_view tail = rest_.substr(0, fresh);
    const bool ascends = !has_key_ || std::string_view(key_).substr(shared) < tail;
    if (!ascends) return fail_next("has keys that do not ascend");
    has_key_ = true;
    key_.resize(shared);
    key_ += tail;
    value_ = rest_.substr(fresh, value);
    rest_.remove_prefix(fresh + value);
    return true;
  }

  std::size_t entries_ = 0;
  std::string_view rest_, restarts_, value_;
  std::string key_;
  bool has_key_ = false;
  const char* error_ = nullptr;
};

}  // namespace

void SortedTable::refuse(std::string_view sentence, std::uint64_t offset) const {
  base::fail(ErrorCode::kFormat, "'{}': the table's block at byte {} {}; get the file anew",
             path().native(), offset, sentence);
}

SortedTable::SortedTable(ByteSource source)
    : source_(std::move(source)), cache_(std::make_shared<Cache>()) {}

SortedTable SortedTable::open(ByteSource source) {
  SortedTable table(std::move(source));
  table.read_index();
  return table;
}

bool SortedTable::recognise(const ByteSource& source) {
  if (source.size() < kFooterBytes) return false;
  std::uint64_t magic = 0;
  source.read_at(source.size() - sizeof(magic), std::as_writable_bytes(std::span(&magic, 1)));
  return magic == kMagic;
}

void SortedTable::read_index() {
  if (!recognise(source_)) {
    base::fail(ErrorCode::kFormat,
               "'{}' is no index or checkpoint of TensorFlow, or is cut off: it does not end with "
               "the mark of a sorted table",
               path().native());
  }
  std::string footer(kFooterBytes, '\0');
  const std::uint64_t end = source_.size() - kFooterBytes;
  source_.read_at(end, std::as_writable_bytes(std::span(footer)));
  std::string_view rest = footer;
  std::uint64_t meta_offset = 0, meta_bytes = 0, offset = 0, bytes = 0;
  if (!take_varint(rest, meta_offset) || !take_varint(rest, meta_bytes) ||
      !take_varint(rest, offset) || !take_varint(rest, bytes)) {
    refuse("is not named by a footer that can be read", end);
  }
  read_block(meta_offset, meta_bytes);  // for its checksum: nothing is stored there
  const std::string index = read_block(offset, bytes);
  BlockCursor cursor(index);
  while (cursor.next()) add_block(cursor.key(), cursor.value(), offset);
  if (cursor.error() != nullptr) refuse(cursor.error(), offset);
}

/// Blocks in order and apart from each other bound the time of a walk by the file's size.
void SortedTable::add_block(std::string_view last_key, std::string_view handle, std::uint64_t end) {
  std::uint64_t offset = 0, bytes = 0;
  if (!take_varint(handle, offset) || !take_varint(handle, bytes) || !handle.empty()) {
    refuse("is the index, and has a handle that cannot be read", end);
  }
  const std::uint64_t begin =
      blocks_.empty() ? 0 : blocks_.back().offset + blocks_.back().bytes + kTrailerBytes;
  if (offset < begin || offset > end || end - offset < kTrailerBytes ||
      bytes > end - offset - kTrailerBytes) {
    refuse("is the index, and has a handle that leads out of the blocks before it", end);
  }
  count_key(index_key_bytes_, last_key.size(), end);
  blocks_.push_back({offset, bytes, std::string(last_key)});
}

std::string SortedTable::read_block(std::uint64_t offset, std::uint64_t bytes) const {
  const std::uint64_t end = source_.size() - kFooterBytes;
  if (offset > end || end - offset < kTrailerBytes || bytes > end - offset - kTrailerBytes) {
    refuse("goes beyond the end of the file", offset);
  }
  std::string block(static_cast<std::size_t>(bytes) + kTrailerBytes, '\0');
  source_.read_at(offset, std::as_writable_bytes(std::span(block)));
  const auto checksum = number_at<std::uint32_t>(block, block.size() - kWord);
  // The checksum covers the type as well.
  block.resize(block.size() - kWord);
  if (masked_crc32c(block) != checksum) refuse("does not match its checksum", offset);
  const auto type = static_cast<unsigned char>(block.back());
  block.pop_back();
  if (type != 0) {
    base::fail(ErrorCode::kUnsupported,
               "'{}': the table's block at byte {} is compressed ({}); save the checkpoint again "
               "with a release of TensorFlow that does not compress it",
               path().native(), offset, type == 1 ? "snappy" : "type " + std::to_string(int{type}));
  }
  return block;
}

void SortedTable::visit(const Visit& visit) const {
  std::uint64_t key_bytes = 0;
  const std::string* last_key = nullptr;
  for (const Block& place : blocks_) {
    const std::string block = read_block(place.offset, place.bytes);
    BlockCursor cursor(block);
    for (bool is_first = true; cursor.next(); is_first = false) {
      const bool is_low = is_first && last_key != nullptr && cursor.key() <= *last_key;
      if (is_low || cursor.key() > place.last_key)
        refuse("has keys outside its range", place.offset);
      count_key(key_bytes, cursor.key().size(), place.offset);
      if (!visit(cursor.key(), cursor.value())) return;
    }
    if (cursor.error() != nullptr) refuse(cursor.error(), place.offset);
    last_key = &place.last_key;
  }
}

/// Adds the length of a key to the total of those that were spelled out.
void SortedTable::count_key(std::uint64_t& total, std::size_t bytes, std::uint64_t offset) const {
  total += bytes;
  if (total > kMostKeyBytesPerByte * file_size() + kKeyBytesAlways) {
    refuse("spells out keys far longer than the file", offset);
  }
}

std::shared_ptr<const SortedTable::LoadedBlock> SortedTable::load(std::size_t block) const {
  const Block& place = blocks_[block];
  auto loaded = std::make_shared<LoadedBlock>();
  loaded->bytes = read_block(place.offset, place.bytes);
  BlockCursor cursor(loaded->bytes);
  std::uint64_t key_bytes = 0;
  while (cursor.next()) {
    count_key(key_bytes, cursor.key().size(), place.offset);
    loaded->entries.push_back({cursor.key(), cursor.value()});
  }
  if (cursor.error() != nullptr) refuse(cursor.error(), place.offset);
  return loaded;
}

std::shared_ptr<const SortedTable::LoadedBlock> SortedTable::load_cached(std::size_t block) const {
  const std::lock_guard lock(cache_->mutex);
  if (cache_->block != block) {
    cache_->loaded = load(block);
    cache_->block = block;
  }
  return cache_->loaded;
}

std::optional<std::string> SortedTable::find(std::string_view key) const {
  const auto place = std::lower_bound(
      blocks_.begin(), blocks_.end(), key,
      [](const Block& block, std::string_view wanted) { return block.last_key < wanted; });
  if (place == blocks_.end()) return {};
  const auto block = load_cached(static_cast<std::size_t>(place - blocks_.begin()));
  const auto entry = std::lower_bound(
      block->entries.begin(), block->entries.end(), key,
      [](const LoadedBlock::Entry& one, std::string_view wanted) { return one.key < wanted; });
  if (entry == block->entries.end() || entry->key != key) return {};
  return std::string(entry->value);
}

void SortedTableWriter::BlockBuilder::add(std::string_view key, std::string_view value) {
  std::size_t shared = 0;
  if (restarts_.empty() || since_restart_ == restart_interval_) {
    restarts_.push_back(static_cast<std::uint32_t>(entries_.size()));
    since_restart_ = 0;
  } else {
    const auto end = std::mismatch(key.begin(), key.end(), last_key_.begin(), last_key_.end());
    shared = static_cast<std::size_t>(end.first - key.begin());
  }
  ++since_restart_;
  for (const std::size_t number : {shared, key.size() - shared, value.size()}) {
    protozero::add_varint_to_buffer(&entries_, number);
  }
  entries_ += key.substr(shared);
  entries_ += value;
  last_key_ = key;
}

std::string SortedTableWriter::BlockBuilder::finish() {
  if (restarts_.empty()) restarts_.push_back(0);
  std::string block = std::exchange(entries_, {});
  for (const std::uint32_t restart : restarts_) append_number(block, restart);
  append_number(block, static_cast<std::uint32_t>(restarts_.size()));
  restarts_.clear();
  since_restart_ = 0;
  return block;
}

void SortedTableWriter::add(std::string_view key, std::string_view value) {
  SLUICE_CHECK(is_empty_ || key > data_.last_key(), "the table's keys must ascend");
  is_empty_ = false;
  data_.add(key, value);
  if (data_.bytes() >= kBlockBytes) close_block();
}

void SortedTableWriter::close_block() {
  const std::string last_key = data_.last_key();
  index_.add(last_key, append_block(data_.finish()));
}

/// Returns the block's handle.
std::string SortedTableWriter::append_block(std::string block) {
  std::string handle;
  protozero::add_varint_to_buffer(&handle, file_.size());
  protozero::add_varint_to_buffer(&handle, block.size());
  block += '\0';  // not compressed
  file_ += block;
  append_number(file_, masked_crc32c(block));
  return handle;
}

std::string SortedTableWriter::finish() {
  if (data_.bytes() > 0) close_block();
  std::string footer = append_block(BlockBuilder(1).finish());
  footer += append_block(index_.finish());
  footer.resize(kFooterBytes - sizeof(kMagic), '\0');
  append_number(footer, kMagic);
  return file_ + footer;
}

}  // namespace sluice::io::formats
