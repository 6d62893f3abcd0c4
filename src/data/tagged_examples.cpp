#include "data/tagged_examples.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "base/check.h"
#include "data/batches.h"
#include "io/name_of_input.h"

namespace sluice::data {
TaggedExamples::TaggedExamples(std::vector<std::vector<std::int32_t>> tokens,
                               std::vector<std::vector<std::int32_t>> labels)
    : ids_(std::move(tokens), std::move(labels)), labelled_(!ids_.target.empty()) {
  ids_.target.resize(ids_.source.size());
  for (std::size_t i = 0; labelled_ && i < ids_.source.size(); ++i) {
    SLUICE_CHECK(ids_.source[i].size() == ids_.target[i].size(),
                 "sentence {} has {} tokens, but {} labels", i, ids_.source[i].size(),
                 ids_.target[i].size());
  }
}

std::vector<ExampleLengths> TaggedExamples::lengths() const {
  std::vector<ExampleLengths> lengths;
  for (const auto& tokens : ids_.source) {
    lengths.push_back({std::ssize(tokens), labelled_ ? std::ssize(tokens) : 0});
  }
  return lengths;
}

Batch TaggedExamples::assemble(std::span<const std::int64_t> rows) const {
  SourceBatch sources = assemble_sources(ids_.source, rows);
  Batch batch;
  batch.rows = sources.rows;
  batch.source_time = sources.source_time;
  batch.source = std::move(sources.source);
  batch.source_lengths = std::move(sources.source_lengths);
  batch.global_row = std::move(sources.global_row);
  if (!labelled_) return batch;
  batch.target_time = batch.source_time;
  batch.target_lengths = batch.source_lengths;
  batch.target_out = assemble_sources(ids_.target, rows).source;
  return batch;
}

Labels labels_of(std::span<const TaggedSentence> sentences) {
  std::set<std::string> names;
  for (const TaggedSentence& sentence : sentences) {
    names.insert(sentence.labels.begin(), sentence.labels.end());
  }
  return Labels({names.begin(), names.end()});
}

std::vector<std::int32_t> encode_labels(const TaggedSentence& sentence, const Labels& labels,
                                        std::string_view path) {
  std::vector<std::int32_t> ids;
  for (std::size_t i = 0; i < sentence.labels.size(); ++i) {
    const std::optional<std::int32_t> id = labels.find(sentence.labels[i]);
    if (!id) {
      labels.refuse(fmt::format("{} line {}", io::name_of_input(path),
                                sentence.first_line + static_cast<std::int64_t>(i)),
                    sentence.labels[i]);
    }
    ids.push_back(*id);
  }
  return ids;
}

std::vector<std::int32_t> encode_tokens(std::span<const std::string> tokens,
                                        const Tokenizer& tokenizer) {
  std::vector<std::int32_t> ids = tokenizer.encode(fmt::format("{}", fmt::join(tokens, " ")));
  SLUICE_CHECK(ids.size() == tokens.size(),
               "{} tokens become {} ids; they may not be empty or hold white space", tokens.size(),
               ids.size());
  return ids;
}

TaggedExamples make_tagged_examples(std::span<const TaggedSentence> sentences,
                                    const Tokenizer& tokenizer, const Labels& labels,
                                    std::int64_t max_tokens, std::string_view path,
                                    TaggedReport* report) {
  std::vector<std::vector<std::int32_t>> tokens, targets;
  TaggedReport counts;
  for (const TaggedSentence& sentence : sentences) {
    std::vector<std::int32_t> target = encode_labels(sentence, labels, path);
    if (max_tokens > 0 && std::ssize(sentence.tokens) > max_tokens) {
      ++counts.too_long;
      continue;
    }
    tokens.push_back(encode_tokens(sentence.tokens, tokenizer));
    targets.push_back(std::move(target));
    ++counts.kept;
    counts.tokens += std::ssize(tokens.back());
    counts.unknown += std::count(tokens.back().begin(), tokens.back().end(), kUnknownId);
  }
  SLUICE_CHECK(counts.kept > 0,
               "no sentence of {} is left: all {} have more than data.max_source_tokens = {}",
               io::name_of_input(path), sentences.size(), max_tokens);
  if (report != nullptr) *report = counts;
  return TaggedExamples(std::move(tokens), std::move(targets));
}

}  // namespace sluice::data
