#include "io/atomic_directory.h"

#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <system_error>
#include <thread>

#include "base/check.h"
#include "io/file.h"

namespace sluice::io {
namespace {

namespace fs = std::filesystem;
using Result = DirectoryLock::Result;

/// Makes and locks the temporary folder; a dead writer's is removed first.
void claim(const fs::path& temporary, DirectoryLock& lock) {
  using namespace std::chrono_literals;
  for (int attempt = 0; attempt < 200; ++attempt) {
    if (::mkdir(temporary.c_str(), 0777) == 0) {
      const Result result = lock.try_lock(temporary);
      if (result == Result::kLocked || result == Result::kUnsupported) return;
      continue;  // Taken for a leftover and removed before it was locked.
    }
    if (errno != EEXIST) {
      base::fail(ErrorCode::kIo, "cannot make the folder '{}': {}", temporary.native(),
                 std::generic_category().message(errno));
    }
    const Result result = lock.try_lock(temporary);
    if (result == Result::kLocked || result == Result::kUnsupported) {
      std::error_code reason;
      fs::remove_all(temporary, reason);
      lock.unlock();
      if (reason && result == Result::kLocked) {
        base::fail(ErrorCode::kIo, "cannot remove '{}', which an interrupted write left: {}",
                   temporary.native(), reason.message());
      }
    } else {
      std::this_thread::sleep_for(10ms);
    }
  }
  base::fail(ErrorCode::kIo, "cannot write '{}': another process is writing it",
             temporary.native());
}

void sync_tree(const fs::path& root) {
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    if (entry.is_symlink() || !(entry.is_regular_file() || entry.is_directory())) continue;
    File::open_any(entry.path()).sync();
  }
  sync_directory(root);
}

}  // namespace

AtomicDirectory::AtomicDirectory(const fs::path& final_path, const WarningHandler* warnings)
    : final_(resolve_directory(final_path)), temporary_(temporary_of(final_)), warnings_(warnings) {
  recover_directory(final_);
  claim(temporary_, lock_);
}

AtomicDirectory::~AtomicDirectory() {
  if (finished_) return;
  std::error_code ignored;
  fs::remove_all(temporary_, ignored);
}

void AtomicDirectory::commit(SwapMethod method, const SwapObserver& observer) {
  SLUICE_ASSERT(!finished_);
  try {
    sync_tree(temporary_);
  } catch (const fs::filesystem_error& error) {
    base::fail(ErrorCode::kIo, "cannot sync the folder '{}': {}", temporary_.native(),
               error.code().message());
  }
  observer("content synced");
  swap_in(final_, method, observer, warnings_);
  finished_ = true;
  lock_.unlock();
}

}  // namespace sluice::io
