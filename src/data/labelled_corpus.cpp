#include "data/labelled_corpus.h"

#include "data/batches.h"
#include "data/shuffle.h"

namespace sluice::data {

std::vector<ExampleLengths> LabelledCorpus::lengths() const {
  std::vector<ExampleLengths> lengths;
  for (const auto& tokens : source) lengths.push_back({std::ssize(tokens), labels.empty() ? 0 : 1});
  return lengths;
}

Batch LabelledCorpus::assemble(std::span<const std::int64_t> rows) const {
  SourceBatch sources = assemble_sources(source, rows);
  Batch batch;
  batch.rows = sources.rows;
  batch.source_time = sources.source_time;
  batch.source = std::move(sources.source);
  batch.source_lengths = std::move(sources.source_lengths);
  batch.global_row = std::move(sources.global_row);
  if (labels.empty()) return batch;
  batch.target_time = 1;
  batch.target_lengths.assign(rows.size(), 1);
  for (const std::int64_t row : rows) {
    batch.target_out.push_back(labels[static_cast<std::size_t>(row)]);
  }
  return batch;
}

std::uint64_t LabelledCorpus::fingerprint() const {
  std::uint64_t hash = begin_labelled_fingerprint(size());
  for (const auto& tokens : source) hash = absorb_sequence(hash, tokens);
  for (const std::int32_t label : labels) {
    hash = absorb_number(hash, static_cast<std::uint32_t>(label));
  }
  return hash;
}

std::uint64_t begin_labelled_fingerprint(std::int64_t examples) {
  return SplitMix::mix(static_cast<std::uint64_t>(examples) + 1);
}

std::uint64_t absorb_number(std::uint64_t hash, std::uint64_t number) {
  return SplitMix::mix(hash ^ (number + 1));
}

std::uint64_t absorb_sequence(std::uint64_t hash, std::span<const std::int32_t> numbers) {
  hash = absorb_number(hash, numbers.size());
  for (const std::int32_t number : numbers) {
    hash = absorb_number(hash, static_cast<std::uint32_t>(number));
  }
  return hash;
}

}  // namespace sluice::data
