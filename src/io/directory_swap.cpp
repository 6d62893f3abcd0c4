#include "io/directory_swap.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <system_error>
#include <thread>

#include "base/check.h"
#include "base/warn.h"

namespace sluice::io {
namespace {

namespace fs = std::filesystem;
using Result = DirectoryLock::Result;

fs::path beside(const fs::path& directory, const char* suffix) {
  fs::path path = directory;
  path += suffix;
  return path;
}

fs::path new_of(const fs::path& directory) { return beside(directory, ".sluice-new"); }
fs::path old_of(const fs::path& directory) { return beside(directory, ".sluice-old"); }

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(fs::symlink_status(path, ignored));
}

void rename_or_fail(const fs::path& from, const fs::path& to) {
  std::error_code reason;
  fs::rename(from, to, reason);
  if (reason) {
    base::fail(ErrorCode::kIo, "cannot rename '{}' to '{}': {}", from.native(), to.native(),
               reason.message());
  }
}

/// Leftovers cost space and nothing else, so failing to remove them is no error.
void remove_or_warn(const fs::path& path, const WarningHandler* warnings) {
  std::error_code reason;
  fs::remove_all(path, reason);
  if (reason) base::warn(warnings, "cannot remove '{}': {}", path.native(), reason.message());
}

void remove_if_dead(const fs::path& path) {
  if (!is_there(path)) return;
  DirectoryLock lock;
  // Readers come here too, who may not be allowed to remove it: a writer that is not says so.
  std::error_code ignored;
  if (lock.try_lock(path) == Result::kLocked) fs::remove_all(path, ignored);
}

/// False if the file system cannot exchange.
bool exchange(const fs::path& a, const fs::path& b) {
  if (::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0) return true;
  const int reason = errno;
  if (reason == EINVAL || reason == ENOSYS || reason == EOPNOTSUPP) return false;
  base::fail(ErrorCode::kIo, "cannot exchange '{}' and '{}': {}", a.native(), b.native(),
             std::generic_category().message(reason));
}

void swap_by_exchange(const fs::path& directory, const SwapObserver& observer,
                      const WarningHandler* warnings) {
  observer("exchanged");
  try {
    sync_directory(directory.parent_path());
  } catch (...) {
    exchange(temporary_of(directory), directory);
    throw;
  }
  observer("synced");
  remove_or_warn(temporary_of(directory), warnings);
}

void swap_by_two_renames(const fs::path& directory, const SwapObserver& observer,
                         const WarningHandler* warnings) {
  const fs::path parent = directory.parent_path();
  // What an earlier swap left there would stand in the way of both renames.
  remove_or_warn(old_of(directory), warnings);
  remove_or_warn(new_of(directory), warnings);
  rename_or_fail(temporary_of(directory), new_of(directory));
  try {
    sync_directory(parent);
    observer("marked complete");
    rename_or_fail(directory, old_of(directory));
    observer("old moved away");
    rename_or_fail(new_of(directory), directory);
    observer("new in place");
    sync_directory(parent);
  } catch (...) {
    std::error_code ignored;
    if (is_there(old_of(directory))) {
      fs::rename(directory, new_of(directory), ignored);
      fs::rename(old_of(directory), directory, ignored);
    }
    remove_or_warn(new_of(directory), warnings);
    throw;
  }
  observer("synced");
  remove_or_warn(old_of(directory), warnings);
}

/// Finishes a swap that was cut while `directory` had no folder. Waits for a living writer.
void put_back(const fs::path& directory) {
  using namespace std::chrono_literals;
  for (int attempt = 0; attempt < 200 && !is_there(directory); ++attempt) {
    DirectoryLock lock;
    const Result result = lock.try_lock(new_of(directory));
    if (result == Result::kBusy) {
      std::this_thread::sleep_for(10ms);
      continue;
    }
    // Between the two looks a living writer may have finished.
    if (is_there(directory)) return;
    const fs::path source = result == Result::kAbsent ? old_of(directory) : new_of(directory);
    if (!is_there(source)) return;
    rename_or_fail(source, directory);
    sync_directory(directory.parent_path());
  }
}

}  // namespace

fs::path temporary_of(const fs::path& directory) { return beside(directory, ".sluice-tmp"); }

fs::path resolve_directory(const fs::path& path) {
  std::error_code reason;
  fs::path resolved = fs::weakly_canonical(fs::absolute(path), reason);
  if (reason) {
    base::fail(ErrorCode::kIo, "cannot find '{}': {}", path.native(), reason.message());
  }
  if (!resolved.has_filename()) resolved = resolved.parent_path();
  SLUICE_CHECK(resolved.has_filename(), "'{}' cannot be replaced as a folder", path.native());
  if (is_there(resolved) && !fs::is_directory(resolved, reason)) {
    base::fail(ErrorCode::kIo, "'{}' is there and is no folder", path.native());
  }
  return resolved;
}

bool make_directory(const fs::path& path) {
  std::error_code reason;
  const bool made = fs::create_directories(path, reason);
  if (reason) {
    base::fail(ErrorCode::kIo, "cannot make the folder '{}': {}", path.native(), reason.message());
  }
  return made;
}

DirectoryLock::Result DirectoryLock::try_lock(const fs::path& path) {
  file_.reset();
  if (!is_there(path)) return Result::kAbsent;
  try {
    file_ = File::open_any(path);
  } catch (const Error& error) {
    return error.code() == ErrorCode::kNotFound ? Result::kAbsent : Result::kUnsupported;
  }
  if (::flock(file_->descriptor(), LOCK_EX | LOCK_NB) != 0) {
    const bool busy = errno == EWOULDBLOCK;
    file_.reset();
    return busy ? Result::kBusy : Result::kUnsupported;
  }
  // Between open and lock the name may have passed to another folder.
  struct stat named {};
  struct stat opened {};
  if (::stat(path.c_str(), &named) == 0 && ::fstat(file_->descriptor(), &opened) == 0 &&
      named.st_ino == opened.st_ino && named.st_dev == opened.st_dev) {
    return Result::kLocked;
  }
  file_.reset();
  return Result::kBusy;
}

void swap_in(const fs::path& directory, SwapMethod method, const SwapObserver& observer,
             const WarningHandler* warnings) {
  const fs::path temporary = temporary_of(directory);
  if (!is_there(directory)) {
    rename_or_fail(temporary, directory);
    observer("new in place");
    sync_directory(directory.parent_path());
    return;
  }
  // Held until the old folder is removed, so that nobody takes it for a dead writer's meanwhile.
  DirectoryLock old_lock;
  old_lock.try_lock(directory);
  if (method == SwapMethod::kTwoRenames || !exchange(temporary, directory)) {
    swap_by_two_renames(directory, observer, warnings);
  } else {
    swap_by_exchange(directory, observer, warnings);
  }
}

void recover_directory(const fs::path& path) {
  const fs::path directory = resolve_directory(path);
  put_back(directory);
  // From here a complete folder is in place, or there never was one.
  for (const fs::path& leftover : {temporary_of(directory), new_of(directory), old_of(directory)}) {
    remove_if_dead(leftover);
  }
}

}  // namespace sluice::io
