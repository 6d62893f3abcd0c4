#include "data/line_reader.h"

#include <utility>

#include "base/check.h"
#include "data/utf8.h"
#include "io/name_of_input.h"

namespace sluice::data {
namespace {

constexpr std::size_t kReadBytes = std::size_t{64} << 10;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

}  // namespace

LineReader::LineReader(std::filesystem::path path, std::size_t max_line_bytes)
    : file_(std::move(path)), max_line_bytes_(max_line_bytes) {
  while (buffer_.size() < kByteOrderMark.size() && refill()) {
  }
  if (buffer_.starts_with(kByteOrderMark)) begin_ = kByteOrderMark.size();
}

bool LineReader::refill() {
  if (at_end_) return false;
  buffer_.erase(0, std::exchange(begin_, 0));
  const std::size_t before = buffer_.size();
  buffer_.resize(before + kReadBytes);
  const std::size_t got = file_.read(std::span(buffer_).subspan(before));
  buffer_.resize(before + got);
  at_end_ = got == 0;
  return !at_end_;
}

std::optional<std::string_view> LineReader::next() {
  std::size_t searched = 0;  // bytes after begin_ known to hold no line end
  while (true) {
    const std::size_t end = buffer_.find('\n', begin_ + searched);
    if (end != std::string::npos) {
      const std::string_view line = std::string_view(buffer_).substr(begin_, end - begin_);
      begin_ = end + 1;
      ++line_number_;
      return checked(line);
    }
    searched = buffer_.size() - begin_;
    // Room for a CR; checked() has the exact limit.
    if (searched > max_line_bytes_ + 1) {
      ++line_number_;
      refuse_overlong();
    }
    if (!refill()) break;
  }
  if (searched == 0) return std::nullopt;
  const std::string_view line = std::string_view(buffer_).substr(begin_);
  begin_ = buffer_.size();
  ++line_number_;
  return checked(line);
}

std::string_view LineReader::checked(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (line.size() > max_line_bytes_) refuse_overlong();
  const std::size_t bad = find_invalid_utf8(line);
  if (bad < line.size()) {
    base::fail(ErrorCode::kFormat,
               "{} line {} is not valid UTF-8 at byte offset {} (byte 0x{:02x}); convert the "
               "file to UTF-8",
               io::name_of_input(path()), line_number_, bad, static_cast<unsigned char>(line[bad]));
  }
  return line;
}

void LineReader::refuse_overlong() {
  at_end_ = true;
  buffer_.clear();
  begin_ = 0;
  base::fail(ErrorCode::kFormat, "{} line {} is longer than {} bytes; is it a text file?",
             io::name_of_input(path()), line_number_, max_line_bytes_);
}

std::vector<std::string> read_lines(const std::filesystem::path& path, const OnBadLine& on_bad) {
  LineReader reader(path);
  std::vector<std::string> lines;
  const OnBadLine keep_place = [&](std::int64_t line, const Error& error) {
    on_bad(line, error);
    lines.emplace_back();
  };
  read_lines_of(reader, on_bad ? keep_place : on_bad, [&] {
    const auto line = reader.next();
    if (line) lines.emplace_back(*line);
    return line.has_value();
  });
  return lines;
}

}  // namespace sluice::data
