#include "data/conll.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/counted.h"
#include "io/name_of_input.h"

namespace sluice::data {
namespace {

constexpr std::string_view kBlanks = " \t";
/// What separates words in a WordTokenizer and can stand within a line.
constexpr std::string_view kWhiteSpace = " \t\v\f\r";
constexpr std::string_view kDocumentStart = "-DOCSTART-";

bool ends_sentence(std::string_view line) {
  const std::size_t first = line.find_first_not_of(kBlanks);
  return first == std::string_view::npos ||
         line.substr(0, line.find_first_of(kBlanks)) == kDocumentStart;
}

}  // namespace

ConllReader::ConllReader(std::filesystem::path path, const ConllOptions& options)
    : lines_(std::move(path)), options_(options) {
  SLUICE_CHECK(options.token_column != 0,
               "data.token_column is 0; columns are counted from 1, or from the end: -1 is the "
               "last");
}

void ConllReader::refuse(std::string_view what) const {
  base::fail(ErrorCode::kFormat, "{} line {}: {}", io::name_of_input(lines_.path()),
             lines_.line_number(), what);
}

std::optional<TaggedSentence> ConllReader::next() {
  TaggedSentence sentence;
  while (const auto line = lines_.next()) {
    if (!ends_sentence(*line)) {
      read_token(*line, sentence);
    } else if (!sentence.tokens.empty()) {
      break;
    }
  }
  if (sentence.tokens.empty()) return std::nullopt;
  sentence.labels = respell_labels(sentence.labels, options_.scheme);
  return sentence;
}

void ConllReader::read_token(std::string_view line, TaggedSentence& sentence) {
  if (column_count_ == 0) tabs_ = line.find('\t') != std::string_view::npos;
  split(line);
  if (column_count_ == 0) column_count_ = columns_.size();
  if (columns_.size() != column_count_) {
    refuse(fmt::format(
        "has {}, but the first line of tokens has {}; a line is one token, and its columns stand "
        "between {}",
        base::counted(columns_.size(), "column"), column_count_, tabs_ ? "tabs" : "spaces"));
  }
  if (sentence.tokens.empty()) sentence.first_line = lines_.line_number();
  const std::string_view token = column(options_.token_column, "token");
  if (token.find_first_of(kWhiteSpace) != std::string_view::npos) {
    refuse(fmt::format("the token '{}' holds white space", token));
  }
  sentence.tokens.emplace_back(token);
  if (options_.label_column == 0) return;
  const std::string_view label = column(options_.label_column, "label");
  if (options_.scheme != LabelScheme::kAsIs && !is_span_label(label)) {
    refuse(fmt::format(
        "the label '{}' is neither O nor B-, I-, E- or S- and a type, as data.label_scheme wants "
        "it",
        label));
  }
  sentence.labels.emplace_back(label);
}

void ConllReader::split(std::string_view line) {
  columns_.clear();
  if (tabs_) {
    std::size_t begin = 0;
    for (std::size_t end; (end = line.find('\t', begin)) != std::string_view::npos;) {
      columns_.push_back(line.substr(begin, end - begin));
      begin = end + 1;
    }
    columns_.push_back(line.substr(begin));
    return;
  }
  for (std::size_t begin = line.find_first_not_of(kBlanks); begin != std::string_view::npos;) {
    const std::size_t end = std::min(line.find_first_of(kBlanks, begin), line.size());
    columns_.push_back(line.substr(begin, end - begin));
    begin = line.find_first_not_of(kBlanks, end);
  }
}

std::string_view ConllReader::column(std::int64_t number, std::string_view what) const {
  const auto count = static_cast<std::int64_t>(columns_.size());
  if (number > count || number < -count) {
    refuse(fmt::format("has {}, so there is no column {} of {}s (data.{}_column)",
                       base::counted(count, "column"), number, what, what));
  }
  const std::string_view text =
      columns_[static_cast<std::size_t>(number > 0 ? number - 1 : count + number)];
  if (text.empty()) refuse(fmt::format("the {} is empty", what));
  return text;
}

void refuse_without_sentences(const std::filesystem::path& path) {
  base::fail(ErrorCode::kFormat, "{} holds no sentence", io::name_of_input(path));
}

std::vector<TaggedSentence> read_conll(const std::filesystem::path& path,
                                       const ConllOptions& options, const OnBadLine& on_bad) {
  ConllReader reader(path, options);
  std::vector<TaggedSentence> sentences;
  read_lines_of(reader, on_bad, [&] {
    auto sentence = reader.next();
    const bool more = sentence.has_value();
    if (more) sentences.push_back(*std::move(sentence));
    return more;
  });
  if (sentences.empty() && !on_bad) refuse_without_sentences(path);
  return sentences;
}

}  // namespace sluice::data
