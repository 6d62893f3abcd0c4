#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/warn.h"
#include "data/conll.h"
#include "io/name_of_input.h"
#include "metrics/entity_f1.h"
#include "sluice/tagger.h"

namespace sluice {
namespace {

EntityScores::Type to_type(const std::string& name, const metrics::EntityScore& score) {
  return {name,           score.correct, score.predicted, score.expected, score.precision(),
          score.recall(), score.f1()};
}

/// Plain text looks like columns between spaces.
void warn_of_words(const WarningHandler& warnings, const std::string& path,
                   const data::ConllReader& reader, const std::vector<TaggedSentence>& sentences,
                   std::int64_t first_line) {
  std::size_t lines = 0;
  for (const TaggedSentence& sentence : sentences) lines += sentence.tokens.size();
  base::warn(
      &warnings,
      "{} line {} has {} columns between spaces, of which the first is the token and the "
      "others are left out (lines of tokens: {}); if they are words of a sentence, give each "
      "a line of "
      "its own and a blank line after the sentence",
      io::name_of_input(path), first_line, reader.columns(), lines);
}

}  // namespace

std::vector<TaggedSentence> read_conll(const std::string& path, const ConllColumns& columns,
                                       const WarningHandler& warnings) {
  data::ConllReader reader(path, {.token_column = columns.token, .label_column = columns.label});
  std::vector<TaggedSentence> sentences;
  std::int64_t first_line = 0;
  while (auto read = reader.next()) {
    if (sentences.empty()) first_line = read->first_line;
    TaggedSentence sentence{std::move(read->tokens), std::move(read->labels), {}};
    for (const data::LabelSpan& span : data::spans_of(sentence.labels)) {
      sentence.entities.push_back({span.type, span.begin, span.end});
    }
    sentences.push_back(std::move(sentence));
  }
  if (columns.token == 1 && columns.label == 0 && reader.columns() > 1 && !reader.between_tabs()) {
    warn_of_words(warnings, path, reader, sentences, first_line);
  }
  return sentences;
}

std::string to_conll(const TaggedSentence& sentence) {
  SLUICE_CHECK(sentence.tokens.size() == sentence.labels.size(),
               "a sentence has {} tokens, but {} labels", sentence.tokens.size(),
               sentence.labels.size());
  std::string text;
  for (std::size_t i = 0; i < sentence.tokens.size(); ++i) {
    text += sentence.tokens[i] + '\t' + sentence.labels[i] + '\n';
  }
  return text + '\n';
}

std::string to_json(const TaggedSentence& sentence) {
  nlohmann::ordered_json json;
  json["tokens"] = sentence.tokens;
  json["labels"] = sentence.labels;
  json["entities"] = nlohmann::ordered_json::array();
  for (const Entity& entity : sentence.entities) {
    std::string text;
    for (std::int64_t i = entity.begin; i < entity.end; ++i) {
      if (i > entity.begin) text += ' ';
      text += sentence.tokens.at(static_cast<std::size_t>(i));
    }
    json["entities"].push_back(
        {{"type", entity.type}, {"begin", entity.begin}, {"end", entity.end}, {"text", text}});
  }
  return json.dump() + '\n';
}

EntityScores score_entities(std::span<const TaggedSentence> predicted,
                            std::span<const TaggedSentence> expected) {
  SLUICE_CHECK(predicted.size() == expected.size(),
               "{} sentences can't be held against {} expected ones", predicted.size(),
               expected.size());
  EntityScores scores;
  metrics::EntityF1 f1;
  for (std::size_t i = 0; i < predicted.size(); ++i) {
    const std::vector<std::string>&found = predicted[i].labels, &right = expected[i].labels;
    f1.add(found, right);
    scores.tokens += std::ssize(right);
    for (std::size_t t = 0; t < right.size(); ++t) {
      scores.correct_tokens += found[t] == right[t] ? 1 : 0;
    }
  }
  for (const auto& [type, score] : f1.by_type()) scores.types.push_back(to_type(type, score));
  scores.all = to_type("all", f1.total());
  return scores;
}

}  // namespace sluice
