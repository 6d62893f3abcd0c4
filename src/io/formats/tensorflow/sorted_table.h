#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/byte_source.h"

namespace sluice::io::formats {

/// Reads the sorted table of LevelDB as TensorFlow's checkpoints use it: blocks of key-value pairs
/// in ascending order of keys, an index of the blocks, a footer of 48 bytes. Opening reads the
/// footer and the index; entries are read a block at a time.
///
/// Checks all of the file that it reads: magic number, masked CRC-32C of each block, order of keys,
/// restart points, blocks that follow each other without overlap. Keys share prefixes, so they can
/// be longer than the file; more than 16 times, plus 64 KiB, is refused. Memory: at most 64 times
/// the file's size, plus 64 KiB.
///
/// Errors are ErrorCode::kFormat, which name the file and the byte; a compressed block is
/// ErrorCode::kUnsupported, since TensorFlow writes none in checkpoints.
class SortedTable {
 public:
  static SortedTable open(ByteSource source);
  /// Whether the source ends like a sorted table.
  static bool recognise(const ByteSource& source);

  const std::filesystem::path& path() const { return source_.path(); }
  std::uint64_t file_size() const { return source_.size(); }

  /// Calls `visit` with each key and value in order, until it returns false. The views hold during
  /// the call.
  using Visit = std::function<bool(std::string_view key, std::string_view value)>;
  void visit(const Visit& visit) const;
  /// The value of a key; absent if there is none. Keeps the key's block in memory for the next
  /// call.
  std::optional<std::string> find(std::string_view key) const;

 private:
  /// A block's place in the file, without the trailer of 5 bytes.
  struct Block {
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
    std::string last_key;  ///< no key of the block is greater
  };

  /// A block in memory, with its entries in order.
  struct LoadedBlock {
    struct Entry {
      std::string key;
      std::string_view value;  ///< a part of `bytes`
    };
    std::string bytes;
    std::vector<Entry> entries;
  };
  /// The block that find() read last: neighbours are mostly looked up one after the other.
  struct Cache {
    std::mutex mutex;
    std::size_t block = SIZE_MAX;
    std::shared_ptr<const LoadedBlock> loaded;
  };

  explicit SortedTable(ByteSource source);

  void read_index();
  void add_block(std::string_view last_key, std::string_view handle, std::uint64_t end);
  std::string read_block(std::uint64_t offset, std::uint64_t bytes) const;
  std::shared_ptr<const LoadedBlock> load(std::size_t block) const;
  std::shared_ptr<const LoadedBlock> load_cached(std::size_t block) const;
  void count_key(std::uint64_t& total, std::size_t bytes, std::uint64_t offset) const;
  [[noreturn]] void refuse(std::string_view sentence, std::uint64_t offset) const;

  ByteSource source_;
  std::vector<Block> blocks_;
  std::uint64_t index_key_bytes_ = 0;
  std::shared_ptr<Cache> cache_;
};

/// Builds the bytes of such a table, uncompressed. Keys must be added in strictly ascending order.
class SortedTableWriter {
 public:
  void add(std::string_view key, std::string_view value);
  /// The whole file. Call it once.
  std::string finish();

 private:
  /// One block as it grows.
  class BlockBuilder {
   public:
    explicit BlockBuilder(std::size_t restart_interval) : restart_interval_(restart_interval) {}
    void add(std::string_view key, std::string_view value);
    std::size_t bytes() const { return entries_.size(); }
    const std::string& last_key() const { return last_key_; }
    /// The block's bytes; begins a new one.
    std::string finish();

   private:
    std::size_t restart_interval_;
    std::string entries_, last_key_;
    std::vector<std::uint32_t> restarts_;
    std::size_t since_restart_ = 0;
  };

  void close_block();
  std::string append_block(std::string block);

  static constexpr std::size_t kRestartInterval = 16;
  std::string file_;
  bool is_empty_ = true;
  BlockBuilder data_{kRestartInterval};
  BlockBuilder index_{1};  ///< as LevelDB does, so that readers can search it
};

}  // namespace sluice::io::formats
