#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "io/npy.h"
#include "io/zip_archive.h"

namespace sluice::io {

/// An array, or some neighbouring sequences of one that holds several.
struct ArrayPiece {
  std::string where;           ///< for errors: "'dev.npz' array 'utt3'"
  std::string name;            ///< without folder and ".npy"
  std::int64_t sequences = 1;  ///< of the whole array
  std::int64_t first = 0;      ///< which of them the piece begins with
  NpyArray array;
};

/// The arrays of a .npy file, of a .npz file in their order, or of the .npy files of a folder in
/// the order of their names, one after the other and large ones in pieces, so that what is in
/// memory is one sequence or some 16 MiB. A name that would leave a folder ("../a") is refused.
/// Throws ErrorCode::kNotFound if there is no such file or no array; else as NpyReader and
/// ZipArchive.
class ArrayReader {
 public:
  /// An array of one axis more than `axes` holds several sequences, one behind the other.
  ArrayReader(std::filesystem::path path, std::size_t axes);

  /// What arrays are called, in the order in which they are read.
  std::vector<std::string> names() const;
  /// Reads the arrays in the order of these names, which are theirs.
  void follow(std::span<const std::string> names);

  std::optional<ArrayPiece> next();

 private:
  struct Entry {
    std::string name;
    std::filesystem::path file;  ///< of its own; or else
    const ZipArchive::Member* member = nullptr;
  };

  void list();
  void open(const Entry& entry);

  std::filesystem::path path_;
  std::size_t axes_;
  std::unique_ptr<ZipArchive> archive_;  ///< of a .npz file
  std::vector<Entry> entries_;
  std::size_t next_entry_ = 0;
  std::optional<NpyReader> reader_;  ///< of the array that is not read to its end
  std::string where_;
  std::int64_t first_ = 0;
};

}  // namespace sluice::io
