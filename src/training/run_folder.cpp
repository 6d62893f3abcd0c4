#include "training/run_folder.h"

#include <system_error>
#include <utility>

#include "base/check.h"

namespace sluice::training {

namespace fs = std::filesystem;

namespace {

/// A run replaces its checkpoint folders whole: what else were in one would go.
fs::path no_checkpoint(fs::path path) {
  std::error_code ignored;
  SLUICE_CHECK(!fs::exists(path / io::kModelFileName, ignored),
               "'{}' is a checkpoint folder, not that of a run: choose another output.directory",
               path.native());
  return path;
}

}  // namespace

RunFolder::RunFolder(fs::path path)
    : path_(no_checkpoint(std::move(path))), made_(io::make_directory(path_)) {
  using Result = io::DirectoryLock::Result;
  const Result result = lock_.try_lock(path_);
  if (result == Result::kLocked || result == Result::kUnsupported) return;
  // kAbsent: the other run has just ended and removed the folder, empty.
  base::fail(ErrorCode::kIo,
             "another process is training in '{}': wait for it or choose another folder",
             path_.native());
}

RunFolder::RunFolder(RunFolder&& other) noexcept
    : path_(std::move(other.path_)),
      made_(std::exchange(other.made_, false)),
      lock_(std::move(other.lock_)) {}

RunFolder::~RunFolder() {
  std::error_code not_empty;
  if (made_) fs::remove(path_, not_empty);
}

}  // namespace sluice::training
