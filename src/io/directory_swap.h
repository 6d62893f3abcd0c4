#pragma once

#include <filesystem>
#include <functional>
#include <optional>

#include "io/file.h"
#include "sluice/warnings.h"

// How a finished folder takes the place of another. Three names beside the folder are ours:
//
//   <folder>.sluice-tmp   being written, or replaced and about to be removed
//   <folder>.sluice-new   complete and synced, about to become <folder>
//   <folder>.sluice-old   the replaced folder, about to be removed
//
// The usual way is one atomic exchange of <folder> and .sluice-tmp. File systems that cannot
// exchange (some network ones) get two renames: .sluice-tmp -> .sluice-new, <folder> ->
// .sluice-old, .sluice-new -> <folder>, each synced; if that is cut between the last two, <folder>
// is absent and recover_directory puts .sluice-new there. Whoever works on one of these folders
// holds a lock on it (flock), which ends with the process: an unlocked one is left from the dead.

namespace sluice::io {

/// The folder's absolute path with links resolved; refuses what is there and is no folder.
std::filesystem::path resolve_directory(const std::filesystem::path& path);

/// Makes the folder and those above it; false if it was there. Throws ErrorCode::kIo with the
/// reason if it can't be.
bool make_directory(const std::filesystem::path& path);

/// An exclusive lock on a folder, held by an open descriptor: it follows the folder's renames.
class DirectoryLock {
 public:
  enum class Result { kLocked, kBusy, kAbsent, kUnsupported };

  /// Does not wait. kUnsupported: the file system has no locks on folders.
  Result try_lock(const std::filesystem::path& path);
  void unlock() { file_.reset(); }

 private:
  std::optional<File> file_;
};

enum class SwapMethod {
  kAutomatic,   ///< exchange where the file system can, else two renames
  kTwoRenames,  ///< what kAutomatic falls back to
};

/// Called after each step of a swap with the step's name; tests kill the process in it.
using SwapObserver = std::function<void(const char* step)>;

/// Puts `<directory>.sluice-tmp`, whose content is synced, in the place of `directory` (which may
/// be absent) and removes what it replaces. `directory` must come from resolve_directory. If it
/// throws (ErrorCode::kIo), the old folder is in place. What it can't remove it warns of.
void swap_in(const std::filesystem::path& directory, SwapMethod method,
             const SwapObserver& observer, const WarningHandler* warnings);

/// Brings `directory` into order after a killed writer: finishes an interrupted swap, so that a
/// complete folder (old or new) is there again, and removes leftovers that no living process holds.
/// Call it before reading a folder that an AtomicDirectory writes. Does nothing if nothing is left
/// over; throws only if the folder is missing and cannot be put back.
void recover_directory(const std::filesystem::path& directory);

/// `<directory>.sluice-tmp`
std::filesystem::path temporary_of(const std::filesystem::path& directory);

}  // namespace sluice::io
