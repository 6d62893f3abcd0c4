#include "bench/shape_lines.h"

#include <charconv>
#include <sstream>

#include "base/check.h"
#include "io/file.h"

namespace sluice::bench {
namespace {

ShapeLine split_line(const std::string& text, std::string place) {
  std::istringstream words(text);
  ShapeLine line{std::move(place), {}, {}};
  words >> line.name;
  SLUICE_CHECK(line.name.find('=') == std::string::npos,
               "{}: the line must start with a name, not with '{}'", line.place, line.name);
  for (std::string word; words >> word;) {
    const std::size_t equals = word.find('=');
    SLUICE_CHECK(equals != std::string::npos, "{}: '{}' is not of the form key=value", line.place,
                 word);
    line.keys.emplace_back(word.substr(0, equals), word.substr(equals + 1));
  }
  return line;
}

}  // namespace

std::vector<ShapeLine> split_shape_lines(std::string_view text, std::string_view origin) {
  std::vector<ShapeLine> lines;
  std::istringstream stream{std::string(text)};
  std::int64_t number = 0;
  for (std::string line; std::getline(stream, line);) {
    ++number;
    line = line.substr(0, line.find('#'));
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    lines.push_back(split_line(line, fmt::format("{}:{}", origin, number)));
  }
  SLUICE_CHECK(!lines.empty(), "{} holds no shape; write lines `name key=value …`", origin);
  return lines;
}

std::string read_shape_text(const std::filesystem::path& path) {
  constexpr std::uint64_t kMostBytes = 1 << 20;
  return io::read_file(path, kMostBytes);
}

void read_keys(const ShapeLine& line,
               const std::function<void(std::string_view key, std::string_view value)>& set,
               const std::function<void()>& check) {
  for (const auto& [key, value] : line.keys) {
    try {
      set(key, value);
    } catch (const Error& error) {
      base::fail(error.code(), "{}: {}: {}", line.place, key, error.what());
    }
  }
  try {
    check();
  } catch (const Error& error) {
    base::fail(error.code(), "{}: {}", line.place, error.what());
  }
}

std::int64_t parse_number(std::string_view text, std::int64_t least) {
  std::int64_t number = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  SLUICE_CHECK(status == std::errc() && end == text.data() + text.size() && number >= least,
               "'{}' is not an integer of at least {}", text, least);
  return number;
}

}  // namespace sluice::bench
