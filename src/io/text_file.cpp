#include "io/text_file.h"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "base/check.h"
#include "io/name_of_input.h"

namespace sluice::io {
namespace {

constexpr std::size_t kChunkBytes = std::size_t{64} << 10;

/// An open file descriptor.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

int open_for_reading(const std::filesystem::path& path) {
  if (path == "-") return ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0);
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    base::fail(ErrorCode::kIo, "'{}' is a directory; a text file is needed", path.string());
  }
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd >= 0) return fd;
  const int error = errno;
  if (error == ENOENT || error == ENOTDIR) {
    base::fail(ErrorCode::kNotFound, "there is no file '{}'", path.string());
  }
  base::fail(ErrorCode::kIo, "cannot open '{}': {}", path.string(), std::strerror(error));
}

}  // namespace

class TextFile::Impl {
 public:
  explicit Impl(std::filesystem::path path)
      : path_(std::move(path)), file_(open_for_reading(path_)) {
    while (held_ < 2 && refill()) {
    }
    packed_ = held_ >= 2 && raw_[0] == 0x1f && raw_[1] == 0x8b;
    if (packed_) start_inflate();
  }
  ~Impl() {
    if (packed_) inflateEnd(&stream_);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  std::size_t read(std::span<char> out) { return packed_ ? unpack(out) : copy(out); }
  const std::filesystem::path& path() const { return path_; }

 private:
  /// Appends to the raw bytes held; false at the end of the file.
  bool refill() {
    if (taken_ > 0) {
      std::memmove(raw_.data(), raw_.data() + taken_, held_ - taken_);
      held_ -= std::exchange(taken_, 0);
    }
    ssize_t got = -1;
    do {
      got = ::read(file_.get(), raw_.data() + held_, raw_.size() - held_);
    } while (got < 0 && errno == EINTR);
    if (got < 0) {
      base::fail(ErrorCode::kIo, "cannot read {}: {}", name_of_input(path_), std::strerror(errno));
    }
    held_ += static_cast<std::size_t>(got);
    return got > 0;
  }

  bool has_input() { return taken_ < held_ || refill(); }

  std::size_t copy(std::span<char> out) {
    if (!has_input()) return 0;
    const std::size_t count = std::min(out.size(), held_ - taken_);
    std::memcpy(out.data(), raw_.data() + taken_, count);
    taken_ += count;
    return count;
  }

  void start_inflate() {
    constexpr int kGzipOnly = 16 + MAX_WBITS;
    if (inflateInit2(&stream_, kGzipOnly) != Z_OK) {
      packed_ = false;
      base::fail(ErrorCode::kOutOfMemory, "no memory left to unpack {}", name_of_input(path_));
    }
  }

  std::size_t unpack(std::span<char> out) {
    const std::size_t wanted = std::min(out.size(), kChunkBytes);
    stream_.next_out = reinterpret_cast<Bytef*>(out.data());
    stream_.avail_out = static_cast<uInt>(wanted);
    while (stream_.avail_out == wanted) {
      if (!has_input()) {
        if (between_members_) return 0;
        base::fail(ErrorCode::kFormat, "{} is truncated: its gzip stream stops half way",
                   name_of_input(path_));
      }
      if (std::exchange(between_members_, false)) inflateReset(&stream_);
      inflate_once();
    }
    return wanted - stream_.avail_out;
  }

  void inflate_once() {
    stream_.next_in = raw_.data() + taken_;
    stream_.avail_in = static_cast<uInt>(held_ - taken_);
    const int status = inflate(&stream_, Z_NO_FLUSH);
    taken_ = held_ - stream_.avail_in;
    if (status == Z_STREAM_END) {
      between_members_ = true;
    } else if (status != Z_OK && status != Z_BUF_ERROR) {
      base::fail(ErrorCode::kFormat, "{} is a damaged gzip file ({})", name_of_input(path_),
                 stream_.msg != nullptr ? stream_.msg : "unreadable");
    }
  }

  std::filesystem::path path_;
  Descriptor file_;
  std::vector<Bytef> raw_ = std::vector<Bytef>(kChunkBytes);
  std::size_t held_ = 0;   ///< bytes in raw_
  std::size_t taken_ = 0;  ///< of them handed on
  bool packed_ = false;
  bool between_members_ = false;  ///< one gzip member has ended, the next has not begun
  z_stream stream_{};
};

TextFile::TextFile(std::filesystem::path path) : impl_(std::make_unique<Impl>(std::move(path))) {}
TextFile::~TextFile() = default;
TextFile::TextFile(TextFile&&) noexcept = default;
TextFile& TextFile::operator=(TextFile&&) noexcept = default;

std::size_t TextFile::read(std::span<char> out) { return impl_->read(out); }

const std::filesystem::path& TextFile::path() const { return impl_->path(); }

}  // namespace sluice::io
