#pragma once

#include <filesystem>

#include "io/checkpoint.h"
#include "io/directory_swap.h"

namespace sluice::training {

/// The output folder of a run, held against other processes for as long as this lives: two runs
/// that took turns in writing one checkpoint would leave neither's. Claim it before looking at what
/// lies in it.
///
///   last         model and training state, to resume from
///   best         the model of the best validation
///   tensorboard  metrics
class RunFolder {
 public:
  /// Makes the folder if it isn't there. Throws ErrorCode::kIo if it cannot, or if another run
  /// holds it, and kInvalidArgument for a checkpoint folder. Where the file system has no locks, it
  /// isn't held.
  explicit RunFolder(std::filesystem::path path);
  RunFolder(RunFolder&& other) noexcept;
  RunFolder& operator=(RunFolder&&) = delete;
  /// Removes a folder that it made and in which nothing came to be.
  ~RunFolder();

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path last() const { return path_ / io::kLastFolderName; }
  std::filesystem::path best() const { return path_ / io::kBestFolderName; }
  std::filesystem::path tensorboard() const { return path_ / "tensorboard"; }

 private:
  std::filesystem::path path_;
  bool made_;
  io::DirectoryLock lock_;
};

}  // namespace sluice::training
