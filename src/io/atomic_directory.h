#pragma once

#include <filesystem>

#include "io/directory_swap.h"

namespace sluice::io {

/// Writes a folder aside and swaps it in whole: at every moment the old or the new folder is
/// complete under its name, or comes back there with recover_directory (io/directory_swap.h).
///
///   AtomicDirectory folder("runs/demo/last");
///   write_model(folder.path() / "model.safetensors", model);
///   folder.commit();
///
/// One writer of a folder at a time: a second waits a little and is then refused (ErrorCode::kIo).
/// The parent folder must exist. A folder that is not committed is removed by the destructor.
/// `warnings` (base/warn.h) must outlive this.
class AtomicDirectory {
 public:
  explicit AtomicDirectory(const std::filesystem::path& final_path,
                           const WarningHandler* warnings = nullptr);
  AtomicDirectory(const AtomicDirectory&) = delete;
  AtomicDirectory& operator=(const AtomicDirectory&) = delete;
  ~AtomicDirectory();

  /// Where to write; empty at first.
  const std::filesystem::path& path() const { return temporary_; }

  /// Syncs every file and folder below path() and swaps it in. If it throws, the folder that was
  /// there before is in place. Call it once.
  void commit(
      SwapMethod method = SwapMethod::kAutomatic,
      const SwapObserver& observer = [](const char*) {});

 private:
  std::filesystem::path final_;
  std::filesystem::path temporary_;
  const WarningHandler* warnings_;
  DirectoryLock lock_;
  bool finished_ = false;
};

}  // namespace sluice::io
