#include "io/output_file.h"

#include <system_error>

#include "base/check.h"

namespace sluice::io {
namespace {

namespace fs = std::filesystem;

/// Where links lead, one after the other: fs::weakly_canonical stops before a link to nothing.
fs::path target_of(const fs::path& path) {
  constexpr int kMostLinks = 40;  // as Linux
  fs::path target = path;
  std::error_code ignored;
  for (int links = 0; fs::is_symlink(target, ignored); ++links) {
    if (links == kMostLinks) {
      base::fail(ErrorCode::kIo, "cannot write '{}': its links lead on without end", path.native());
    }
    target = target.parent_path() / fs::read_symlink(target);
  }
  return target;
}

bool is_special(const fs::path& path) {
  std::error_code ignored;
  const auto status = fs::status(path, ignored);
  return fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status);
}

}  // namespace

OutputFile::OutputFile(const fs::path& path) {
  if (is_special(path)) {
    special_ = File::open_to_write(path);
  } else {
    durable_.emplace(target_of(path));
  }
}

void OutputFile::write(std::span<const std::byte> bytes) {
  if (special_) return special_->write(bytes);
  durable_->write(bytes);
}

void OutputFile::commit() {
  if (special_) return special_->close();
  durable_->commit();
}

void require_writable(const fs::path& path) {
  if (!is_special(path)) const OutputFile removed_unwritten(path);
}

bool is_same_output(const fs::path& one, const fs::path& other) {
  // What can't be looked at can't be written either, which its writer says.
  std::error_code unseen, other_unseen;
  const fs::path first = fs::weakly_canonical(target_of(one), unseen);
  const fs::path second = fs::weakly_canonical(target_of(other), other_unseen);
  return !unseen && !other_unseen && first == second;
}

}  // namespace sluice::io
