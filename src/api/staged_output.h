#pragma once

#include <filesystem>

namespace sluice::api {

/// A folder beside a target where files are written and proved before they get their names.
class StagedOutput {
 public:
  /// Throws ErrorCode::kIo if the folder cannot be made.
  explicit StagedOutput(const std::filesystem::path& target);
  StagedOutput(const StagedOutput&) = delete;
  StagedOutput& operator=(const StagedOutput&) = delete;
  /// Removes what was not committed.
  ~StagedOutput();

  /// The target's name in that folder.
  const std::filesystem::path& path() const { return path_; }
  /// Moves all files of the folder beside it, under their names.
  void commit();

 private:
  std::filesystem::path folder_, path_;
};

}  // namespace sluice::api
