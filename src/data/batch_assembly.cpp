#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "data/batches.h"
#include "data/corpus.h"

namespace sluice::data {
namespace {

using Ids = std::vector<std::int32_t>;

const Ids& example(std::span<const Ids> examples, std::int64_t index) {
  SLUICE_CHECK(index >= 0 && index < std::ssize(examples),
               "example {} is not one of the {} of this data set", index, examples.size());
  return examples[static_cast<std::size_t>(index)];
}

std::size_t longest(std::span<const Ids> examples, std::span<const std::int64_t> rows) {
  std::size_t most = 0;
  for (const std::int64_t index : rows) most = std::max(most, example(examples, index).size());
  return most;
}

/// Writes `ids` down column `row` of a time-major [time, rows] tensor, from step `first` on.
void write_column(const Ids& ids, std::size_t first, std::size_t row, std::size_t rows, Ids& out) {
  for (std::size_t t = 0; t < ids.size(); ++t) out[(first + t) * rows + row] = ids[t];
}

}  // namespace

std::int64_t Batch::source_tokens() const {
  return std::accumulate(source_lengths.begin(), source_lengths.end(), std::int64_t{0});
}

std::int64_t Batch::target_tokens() const {
  return std::accumulate(target_lengths.begin(), target_lengths.end(), std::int64_t{0});
}

std::vector<std::int64_t> Examples::label_counts(std::int64_t labels) const {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(labels));
  for (std::int64_t i = 0; i < size(); ++i) {
    for (const std::int32_t label : assemble({&i, 1}).target_out) {
      ++counts[static_cast<std::size_t>(label)];
    }
  }
  return counts;
}

SourceBatch assemble_sources(std::span<const Ids> sources, std::span<const std::int64_t> rows) {
  SLUICE_CHECK(!rows.empty(), "a batch needs at least one row");
  const std::size_t time = std::max<std::size_t>(longest(sources, rows), 1);
  SourceBatch batch;
  batch.rows = std::ssize(rows);
  batch.source_time = static_cast<std::int64_t>(time);
  batch.source.assign(time * rows.size(), kPadId);
  batch.global_row.assign(rows.begin(), rows.end());
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const Ids& ids = example(sources, rows[r]);
    write_column(ids, 0, r, rows.size(), batch.source);
    batch.source_lengths.push_back(static_cast<std::int32_t>(ids.size()));
  }
  return batch;
}

Batch PairCorpus::assemble(std::span<const std::int64_t> rows) const {
  SourceBatch sources = assemble_sources(source, rows);
  const std::size_t time = longest(target, rows) + 1;
  Batch batch;
  batch.rows = sources.rows;
  batch.source_time = sources.source_time;
  batch.target_time = static_cast<std::int64_t>(time);
  batch.source = std::move(sources.source);
  batch.source_lengths = std::move(sources.source_lengths);
  batch.global_row = std::move(sources.global_row);
  batch.target_in.assign(time * rows.size(), kPadId);
  batch.target_out.assign(time * rows.size(), kPadId);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const Ids& ids = example(target, rows[r]);
    batch.target_in[r] = kBosId;
    write_column(ids, 1, r, rows.size(), batch.target_in);
    write_column(ids, 0, r, rows.size(), batch.target_out);
    batch.target_out[ids.size() * rows.size() + r] = kEosId;
    batch.target_lengths.push_back(static_cast<std::int32_t>(ids.size() + 1));
  }
  return batch;
}

}  // namespace sluice::data
