#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/bad_line.h"
#include "data/label_spans.h"
#include "data/line_reader.h"

namespace sluice::data {

/// Which columns of a file are read. Columns are counted from 1, or from the end: -1 is the last.
struct ConllOptions {
  std::int64_t token_column = 1;
  /// 0: labels aren't read.
  std::int64_t label_column = -1;
  LabelScheme scheme = LabelScheme::kAsIs;
};

struct TaggedSentence {
  std::vector<std::string> tokens;
  std::vector<std::string> labels;  ///< one a token; none if they aren't read
  std::int64_t first_line = 0;      ///< of the file; a sentence's lines follow each other
};

/// Reads a file of columns as the CoNLL shared tasks have it, plain or gzip, sentence by sentence:
/// a token a line, with a blank line between sentences. A line is blank if it holds nothing but
/// spaces and tabs. Columns stand between tabs, or, if the first line has none, between spaces; a
/// line whose token is -DOCSTART- is skipped and ends a sentence. A token may not hold white space:
/// vocabularies of words are split there. No sentence is empty.
class ConllReader {
 public:
  /// Errors as LineReader, and ErrorCode::kInvalidArgument for column 0 of tokens.
  explicit ConllReader(std::filesystem::path path, const ConllOptions& options = {});

  /// Nothing at the end. Throws ErrorCode::kFormat with file and line for a line that hasn't as
  /// many columns as the first, a column that isn't there or is empty, white space in a token, or,
  /// where a scheme is asked for, a label that is none of spans; else as LineReader.
  std::optional<TaggedSentence> next();
  /// As LineReader::line_number().
  std::int64_t line_number() const { return lines_.line_number(); }
  /// Of the first line of tokens; 0 before it was read.
  std::size_t columns() const { return column_count_; }
  bool between_tabs() const { return tabs_; }

 private:
  void read_token(std::string_view line, TaggedSentence& sentence);
  void split(std::string_view line);
  std::string_view column(std::int64_t number, std::string_view what) const;
  [[noreturn]] void refuse(std::string_view what) const;

  LineReader lines_;
  ConllOptions options_;
  std::vector<std::string_view> columns_;  ///< of the line that is read
  std::size_t column_count_ = 0;           ///< of the first line; 0: there was none so far
  bool tabs_ = false;
};

/// Throws ErrorCode::kFormat for a file without sentences.
[[noreturn]] void refuse_without_sentences(const std::filesystem::path& path);

/// All sentences of a file. Throws ErrorCode::kFormat if there is none; else as ConllReader. With
/// `on_bad` what is left of a sentence behind a line that is refused is a sentence, and there may
/// be none.
std::vector<TaggedSentence> read_conll(const std::filesystem::path& path,
                                       const ConllOptions& options = {},
                                       const OnBadLine& on_bad = {});

}  // namespace sluice::data
