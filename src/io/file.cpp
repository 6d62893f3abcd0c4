#include "io/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "base/check.h"

namespace sluice::io {
namespace {

using base::fail;

// Linux transfers at most 0x7ffff000 bytes in one call; a round number below it.
constexpr std::size_t kLargestTransfer = std::size_t{1} << 30;

[[noreturn]] void fail_system(std::string_view what, const std::filesystem::path& path) {
  const int reason = errno;
  fail(reason == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo, "cannot {} '{}': {}", what,
       path.native(), std::generic_category().message(reason));
}

/// Calls `call` again for as long as a signal interrupts it.
template <typename Call>
auto retry(Call&& call) {
  while (true) {
    const auto result = call();
    if (result >= 0 || errno != EINTR) return result;
  }
}

int open_descriptor(const std::filesystem::path& path, int flags, std::string_view what) {
  const int descriptor = retry([&] { return ::open(path.c_str(), flags | O_CLOEXEC, 0666); });
  if (descriptor < 0) fail_system(what, path);
  return descriptor;
}

struct stat status_of(int descriptor, const std::filesystem::path& path) {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) fail_system("inspect", path);
  return status;
}

std::filesystem::path aside_of(const std::filesystem::path& path) {
  std::filesystem::path aside = path;
  aside += ".sluice-tmp";
  return aside;
}

/// Opens the aside file and locks it, so that what a dead writer left there may be overwritten
/// and what a living one writes may not.
File open_aside(const std::filesystem::path& path) {
  std::error_code ignored;
  const auto status = std::filesystem::status(path, ignored);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    fail(ErrorCode::kInvalidArgument, "cannot write '{}': it is there and is no regular file",
         path.native());
  }
  const std::filesystem::path aside = aside_of(path), folder = path.parent_path();
  if (!folder.empty() && !std::filesystem::is_directory(folder, ignored)) {
    fail(ErrorCode::kNotFound, "cannot write '{}': there is no folder '{}'", path.native(),
         folder.native());
  }
  while (true) {
    File file = File::open_to_write(aside);
    if (::flock(file.descriptor(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
      fail(ErrorCode::kIo, "cannot write '{}': another process is writing it", path.native());
    }
    // Between open and lock another writer may have renamed this very file into place.
    struct stat named {};
    const struct stat opened = status_of(file.descriptor(), aside);
    if (::stat(aside.c_str(), &named) != 0 || named.st_ino != opened.st_ino) continue;
    file.truncate();
    return file;
  }
}

}  // namespace

File::File(int descriptor, std::filesystem::path path)
    : descriptor_(descriptor), path_(std::move(path)) {}

File::File(File&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), path_(std::move(other.path_)) {}

File& File::operator=(File&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(path_, other.path_);
  return *this;
}

File::~File() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

File File::open(const std::filesystem::path& path) {
  // Without O_NONBLOCK, opening a pipe would wait for its writer before it could be refused.
  File file(open_descriptor(path, O_RDONLY | O_NONBLOCK, "open"), path);
  if (!S_ISREG(status_of(file.descriptor_, path).st_mode)) {
    fail(ErrorCode::kIo, "cannot open '{}': it is no regular file", path.native());
  }
  return file;
}

File File::open_to_write(const std::filesystem::path& path) {
  return File(open_descriptor(path, O_WRONLY | O_CREAT, "write"), path);
}

File File::open_any(const std::filesystem::path& path) {
  return File(open_descriptor(path, O_RDONLY, "open"), path);
}

std::uint64_t File::size() const {
  return static_cast<std::uint64_t>(status_of(descriptor_, path_).st_size);
}

void File::read_at(std::uint64_t offset, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const std::size_t wanted = std::min(bytes.size(), kLargestTransfer);
    const auto got = retry(
        [&] { return ::pread(descriptor_, bytes.data(), wanted, static_cast<off_t>(offset)); });
    if (got < 0) fail_system("read", path_);
    if (got == 0) {
      fail(ErrorCode::kIo, "cannot read '{}': it ends at byte {}, {} bytes early", path_.native(),
           offset, bytes.size());
    }
    bytes = bytes.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
}

void File::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::size_t wanted = std::min(bytes.size(), kLargestTransfer);
    const auto put = retry([&] { return ::write(descriptor_, bytes.data(), wanted); });
    if (put < 0) fail_system("write", path_);
    if (put == 0) {
      fail(ErrorCode::kIo, "cannot write '{}': the system took none of {} bytes", path_.native(),
           bytes.size());
    }
    bytes = bytes.subspan(static_cast<std::size_t>(put));
  }
}

void File::truncate() {
  if (retry([&] { return ::ftruncate(descriptor_, 0); }) != 0) fail_system("empty", path_);
}

void File::sync() {
  if (retry([&] { return ::fsync(descriptor_); }) != 0) fail_system("sync", path_);
}

void File::close() {
  // Linux frees the descriptor even when close is interrupted, so it must not be repeated.
  if (::close(std::exchange(descriptor_, -1)) != 0 && errno != EINTR) fail_system("close", path_);
}

void sync_directory(const std::filesystem::path& path) {
  File directory = File::open_any(path.empty() ? "." : path);
  directory.sync();
}

DurableFile::DurableFile(std::filesystem::path path)
    : path_(std::move(path)), aside_(open_aside(path_)) {}

DurableFile::~DurableFile() {
  if (!committed_) ::unlink(aside_.path().c_str());
}

void DurableFile::commit() {
  aside_.sync();
  if (::rename(aside_.path().c_str(), path_.c_str()) != 0) fail_system("put in place", path_);
  committed_ = true;
  aside_.close();
  sync_directory(path_.parent_path());
}

void write_file_durably(const std::filesystem::path& path, std::string_view content) {
  DurableFile file(path);
  file.write(std::as_bytes(std::span(content)));
  file.commit();
}

std::string read_file(const std::filesystem::path& path, std::uint64_t max_bytes) {
  const File file = File::open_any(path);
  const struct stat status = status_of(file.descriptor(), path);
  const std::uint64_t stated = S_ISREG(status.st_mode) ? file.size() : 0;
  const auto refuse_size = [&](std::string_view size) {
    fail(ErrorCode::kFormat, "'{}' has {} bytes; at most {} are read from such a file",
         path.native(), size, max_bytes);
  };
  if (stated > max_bytes) refuse_size(std::to_string(stated));
  constexpr std::size_t kChunk = 1 << 16;
  // One byte more than stated, so that the end of the file shows without growing.
  std::string content(static_cast<std::size_t>(stated) + 1, '\0');
  std::size_t filled = 0;
  while (true) {
    if (filled == content.size()) content.resize(filled + kChunk);
    const std::size_t room = std::min(content.size() - filled, kLargestTransfer);
    const auto got = retry([&] { return ::read(file.descriptor(), &content[filled], room); });
    if (got < 0) fail_system("read", path);
    filled += static_cast<std::size_t>(got);
    if (filled > max_bytes) refuse_size("more than " + std::to_string(max_bytes));
    if (got == 0) break;
  }
  content.resize(filled);
  return content;
}

}  // namespace sluice::io
