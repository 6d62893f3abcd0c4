#include "data/word_vectors.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "data/line_reader.h"
#include "io/name_of_input.h"

namespace sluice::data {
namespace {

using base::fail;

constexpr std::string_view kSeparators = " \t";

template <typename Number>
std::optional<Number> read_number(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

void split(std::string_view line, std::vector<std::string_view>& fields) {
  fields.clear();
  for (std::size_t begin = line.find_first_not_of(kSeparators); begin != std::string_view::npos;) {
    const std::size_t end = std::min(line.find_first_of(kSeparators, begin), line.size());
    fields.push_back(line.substr(begin, end - begin));
    begin = line.find_first_not_of(kSeparators, end);
  }
}

class Reader {
 public:
  Reader(const std::filesystem::path& path, std::int64_t width, const Tokenizer& tokenizer)
      : lines_(path), width_(static_cast<std::size_t>(width)) {
    for (std::int32_t id = kFirstPieceId; id < tokenizer.size(); ++id) {
      wanted_.emplace(tokenizer.piece(id), Wanted{id, 0});
    }
  }

  WordVectors read() {
    while (const auto line = lines_.next()) {
      split(*line, fields_);
      if (lines_.line_number() == 1 && read_header()) continue;
      read_vector();
    }
    if (result_.words_in_file == 0) {
      fail(ErrorCode::kFormat, "{} holds no vectors of words", io::name_of_input(lines_.path()));
    }
    if (declared_ && *declared_ != result_.words_in_file) {
      fail(ErrorCode::kFormat, "{} has {} words, but its first line says {}; is it truncated?",
           io::name_of_input(lines_.path()), result_.words_in_file, *declared_);
    }
    return std::move(result_);
  }

 private:
  struct Wanted {
    std::int32_t id;
    std::int64_t line;  ///< that has it; 0: none so far
  };

  template <typename... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorCode::kFormat, "{} line {}: {}", io::name_of_input(lines_.path()),
         lines_.line_number(), fmt::format(format, std::forward<Args>(args)...));
  }
  [[noreturn]] void refuse_width(std::size_t found) const {
    refuse("{} numbers follow the word, but embeddings are {} wide", found, width_);
  }

  // Two whole numbers are no word with its vector, unless vectors have one number.
  bool read_header() {
    if (fields_.size() != 2) return false;
    const auto is_whole = [](std::string_view text) {
      return text.find_first_not_of("0123456789") == std::string_view::npos;
    };
    const bool is_header = is_whole(fields_[0]) && is_whole(fields_[1]);
    if (!is_header || (width_ == 1 && fields_[1] != "1")) return false;
    if (read_number<std::uint64_t>(fields_[1]) != width_) {
      refuse("vectors have {} numbers, but embeddings are {} wide", fields_[1], width_);
    }
    declared_ = read_number<std::int64_t>(fields_[0]);
    if (!declared_) refuse("no file holds {} words", fields_[0]);
    return true;
  }

  void read_vector() {
    if (fields_.size() <= width_) refuse_width(fields_.empty() ? 0 : fields_.size() - 1);
    const std::size_t first = fields_.size() - width_;
    // A word may hold spaces, but a number before the last ones is one too many.
    if (first > 1 && read_number<double>(fields_[first - 1])) refuse_width(fields_.size() - 1);
    ++result_.words_in_file;
    if (first > 1) return;
    const auto found = wanted_.find(std::string(fields_[0]));
    if (found == wanted_.end()) return;
    Wanted& wanted = found->second;
    if (wanted.line != 0) {
      refuse("the word '{}' stands in line {} already", fields_[0], wanted.line);
    }
    wanted.line = lines_.line_number();
    result_.ids.push_back(wanted.id);
    for (std::size_t i = first; i < fields_.size(); ++i) {
      const std::optional<double> value = read_number<double>(fields_[i]);
      if (!value || !(std::abs(*value) <= std::numeric_limits<float>::max())) {
        refuse("'{}' is no finite number", fields_[i]);
      }
      result_.values.push_back(static_cast<float>(*value));
    }
  }

  LineReader lines_;
  std::size_t width_;
  std::unordered_map<std::string, Wanted> wanted_;
  std::vector<std::string_view> fields_;
  std::optional<std::int64_t> declared_;
  WordVectors result_;
};

}  // namespace

WordVectors read_word_vectors(const std::filesystem::path& path, std::int64_t width,
                              const Tokenizer& tokenizer) {
  return Reader(path, width, tokenizer).read();
}

}  // namespace sluice::data
