#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/byte_source.h"
#include "io/formats/pickle/pickle.h"
#include "io/zip_archive.h"

namespace sluice::io::formats {

/// The storages of a PyTorch file: the numbers that tensors are views of, little-endian.
class TorchStorages {
 public:
  virtual ~TorchStorages() = default;

  /// The size of a storage; empty if there is none of that key.
  virtual std::optional<std::uint64_t> bytes_of(std::string_view key) const = 0;
  /// The content of a storage that is there.
  virtual std::vector<std::byte> read(std::string_view key) = 0;
};

/// The zip format of PyTorch since 1.6, and TorchScript archives: data.pkl and data/<key> in a
/// folder of any name.
class TorchZip : public TorchStorages {
 public:
  /// Finds the members, which must be stored, not deflated. Throws ErrorCode::kFormat for a zip
  /// file that is none of PyTorch or whose members overlap, kUnsupported for big-endian files and
  /// for archives of PyTorch 1.0 (model.json).
  explicit TorchZip(const std::filesystem::path& path);

  bool is_torch_script() const { return is_torch_script_; }
  /// The values of data.pkl.
  Pickle pickle();
  std::optional<std::uint64_t> bytes_of(std::string_view key) const override;
  std::vector<std::byte> read(std::string_view key) override;

 private:
  void index_members();
  void check_sizes() const;
  void require_little_endian();
  void read_member(const ZipArchive::Member& member, std::span<char> content);
  const ZipArchive::Member* find(const std::string& name) const;

  ZipArchive archive_;
  std::string path_;
  std::string folder_;
  std::map<std::string_view, const ZipArchive::Member*> members_;
  bool is_torch_script_ = false;
};

/// The format of PyTorch before 1.6: pickles one behind the other, then the storages.
class TorchLegacy : public TorchStorages {
 public:
  /// Reads the pickles and finds the storages. Throws ErrorCode::kFormat for other files.
  explicit TorchLegacy(ByteSource source);

  Pickle take_pickle() { return std::move(*pickle_); }
  std::optional<std::uint64_t> bytes_of(std::string_view key) const override;
  std::vector<std::byte> read(std::string_view key) override;

 private:
  struct Range {
    std::uint64_t begin;
    std::uint64_t bytes;
  };

  Pickle next_pickle();
  void check_system(const PickleValue& system) const;
  void find_storages(const PickleValue& keys);
  std::string where() const { return "'" + source_.path().native() + "'"; }

  ByteSource source_;
  std::shared_ptr<const std::string> head_;  ///< the file's first bytes
  std::uint64_t at_ = 0;
  std::optional<Pickle> pickle_;
  std::map<std::string, Range, std::less<>> ranges_;
};

}  // namespace sluice::io::formats
