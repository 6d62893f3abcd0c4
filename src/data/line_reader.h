#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/bad_line.h"
#include "io/text_file.h"

namespace sluice::data {

/// The lines of a text file, plain or gzip. Line ends are LF or CRLF and are not part of a line; a
/// byte order mark at the very start is dropped; a last line without a line end counts.
class LineReader {
 public:
  static constexpr std::size_t kMaxLineBytes = std::size_t{16} << 20;

  /// Opens the file; errors as TextFile.
  explicit LineReader(std::filesystem::path path, std::size_t max_line_bytes = kMaxLineBytes);

  /// The next line, valid until the next call; nothing at the end. Throws ErrorCode::kFormat with
  /// file and line number (and byte offset in the line) if the line is not valid UTF-8 or longer
  /// than the limit, and as TextFile::read(). It can be called again after a line that was refused;
  /// behind one that is too long there is nothing more.
  std::optional<std::string_view> next();

  /// Number, from 1, of the line that next() gave last; the number of lines once next() gave
  /// nothing.
  std::int64_t line_number() const { return line_number_; }
  const std::filesystem::path& path() const { return file_.path(); }

 private:
  bool refill();
  std::string_view checked(std::string_view line);
  [[noreturn]] void refuse_overlong();

  io::TextFile file_;
  std::size_t max_line_bytes_;
  std::int64_t line_number_ = 0;
  bool at_end_ = false;
  std::string buffer_;
  std::size_t begin_ = 0;  ///< first byte of buffer_ not handed out yet
};

/// All lines of a file; errors as LineReader. With `on_bad` lines that are refused come out empty.
std::vector<std::string> read_lines(const std::filesystem::path& path,
                                    const OnBadLine& on_bad = {});

}  // namespace sluice::data
