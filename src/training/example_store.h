#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/corpus.h"
#include "io/file.h"

namespace sluice::training {

/// Token ids of an example; a side that a kind of model has no use for is empty.
struct ExampleIds {
  std::vector<std::int32_t> source;
  std::vector<std::int32_t> target;
};

/// Examples as token ids in two files: `<path>.ids`, int32 numbers, the source and then the target
/// of each example, and `<path>.index`, for each example where it begins in the other and how long
/// both sides are, then a line of text that says what they were made from. A cache: numbers are in
/// this machine's byte order. Whoever reads them takes a few at a time, so they may be larger than
/// memory.
class ExampleStore {
 public:
  /// Nothing if the files aren't there, aren't whole or were not made from `key`.
  static std::optional<ExampleStore> open(const std::filesystem::path& path,
                                          const std::string& key);

  std::int64_t size() const { return size_; }
  /// Of all examples together.
  std::int64_t ids() const { return ids_; }
  const data::CorpusReport& report() const { return report_; }

  /// Of every example, without ends of sequences; read from the file.
  std::vector<data::ExampleLengths> lengths() const;
  /// Throws ErrorCode::kFormat if the files were damaged, ErrorCode::kIo if they can't be read.
  ExampleIds read(std::int64_t example) const;
  /// What is done with the ids of an example, which are valid until it returns.
  using Use = std::function<void(std::int64_t example, std::span<const std::int32_t> source,
                                 std::span<const std::int32_t> target)>;
  /// Reads all examples in their order, a megabyte or so of them at a time. Errors as read().
  void for_each(const Use& use) const;
  /// Neighbouring ids, whatever example they are of.
  void read_ids(std::int64_t begin, std::span<std::int32_t> out) const;

 private:
  friend class ExampleStoreWriter;
  struct Entry {
    std::int64_t begin;  ///< of its ids among all
    std::int32_t source, target;
  };

  ExampleStore(io::File ids, io::File index, std::int64_t size, data::CorpusReport report);
  Entry checked(const Entry& entry, std::int64_t example) const;
  /// Calls use(example, entry) for every example, in order.
  template <typename UseEntry>
  void for_each_entry(const UseEntry& use) const;

  io::File ids_file_;
  io::File index_file_;
  std::int64_t size_;
  std::int64_t ids_;
  data::CorpusReport report_;
};

/// Writes such files, which appear when all is written.
class ExampleStoreWriter {
 public:
  explicit ExampleStoreWriter(const std::filesystem::path& path);

  void add(const ExampleIds& example);
  /// `key` says what the examples were made from; it may not hold a line end.
  void finish(const std::string& key, const data::CorpusReport& report);

 private:
  /// What goes to a file in larger pieces.
  struct Buffered {
    explicit Buffered(const std::filesystem::path& path) : file(path) {}
    void write(std::span<const std::byte> bytes);
    void commit();

    io::DurableFile file;
    std::vector<std::byte> buffer;
  };

  std::filesystem::path path_of_index_;
  Buffered ids_;
  Buffered index_;
  std::int64_t written_ = 0;
};

}  // namespace sluice::training
