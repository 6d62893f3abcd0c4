#include "data/frame_corpus.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/check.h"
#include "data/shuffle.h"

namespace sluice::data {
namespace {

/// Writes frames down column `row` of a time-major [time, rows, width] tensor.
void write_column(std::span<const float> frames, std::int64_t width, std::size_t row,
                  std::size_t rows, std::vector<float>& out) {
  const auto step = static_cast<std::size_t>(width);
  for (std::size_t t = 0; t * step < frames.size(); ++t) {
    std::copy_n(frames.data() + t * step, step, out.data() + (t * rows + row) * step);
  }
}

}  // namespace

ExampleLengths FrameCorpus::lengths_of(std::int64_t i) const {
  std::int64_t target = 0;
  if (!labels.empty()) target = std::ssize(labels[static_cast<std::size_t>(i)]);
  if (values.size() > 0) target = values.length(i);
  return {frames.length(i), target};
}

std::vector<ExampleLengths> FrameCorpus::lengths() const {
  std::vector<ExampleLengths> all;
  for (std::int64_t i = 0; i < size(); ++i) all.push_back(lengths_of(i));
  return all;
}

Batch FrameCorpus::assemble(std::span<const std::int64_t> rows) const {
  SLUICE_CHECK(!rows.empty(), "a batch needs at least one row");
  Batch batch;
  batch.rows = std::ssize(rows);
  batch.source_time = 1;
  batch.global_row.assign(rows.begin(), rows.end());
  for (const std::int64_t row : rows) {
    SLUICE_CHECK(row >= 0 && row < size(), "example {} is not one of the {} of this data set", row,
                 size());
    const ExampleLengths own = lengths_of(row);
    batch.source_time = std::max(batch.source_time, own.source);
    batch.target_time = std::max(batch.target_time, own.target);
    batch.source_lengths.push_back(static_cast<std::int32_t>(own.source));
    batch.target_lengths.push_back(static_cast<std::int32_t>(own.target));
  }
  const auto numbers = [&](std::int64_t time, std::int64_t width) {
    return static_cast<std::size_t>(time * batch.rows * width);
  };
  batch.features.resize(numbers(batch.source_time, frames.width));
  if (!resets.empty()) batch.resets.resize(numbers(batch.source_time, 1));
  if (!labels.empty()) batch.target_out.resize(numbers(batch.target_time, 1));
  if (values.size() > 0) batch.values.resize(numbers(batch.target_time, values.width));
  for (std::size_t r = 0; r < rows.size(); ++r) {
    write_column(frames.frames(rows[r]), frames.width, r, rows.size(), batch.features);
    if (values.size() > 0) {
      write_column(values.frames(rows[r]), values.width, r, rows.size(), batch.values);
    }
    const auto write = [&](const std::vector<std::vector<std::int32_t>>& all,
                           std::vector<std::int32_t>& column) {
      if (all.empty()) return;
      const auto& own = all[static_cast<std::size_t>(rows[r])];
      for (std::size_t t = 0; t < own.size(); ++t) column[t * rows.size() + r] = own[t];
    };
    write(labels, batch.target_out);
    write(resets, batch.resets);
  }
  if (batch.target_time == 0) batch.target_lengths.clear();
  return batch;
}

FrameFingerprint::FrameFingerprint(std::int64_t examples)
    : hash_(SplitMix::mix(static_cast<std::uint64_t>(examples) + 1)) {}

void FrameFingerprint::absorb(std::uint64_t number) { hash_ = SplitMix::mix(hash_ ^ (number + 1)); }

void FrameFingerprint::values(std::span<const float> values) {
  for (const float value : values) absorb(std::bit_cast<std::uint32_t>(value));
}

void FrameFingerprint::labels(std::span<const std::int32_t> labels) {
  absorb(labels.size());
  for (const std::int32_t label : labels) absorb(static_cast<std::uint32_t>(label));
}

std::uint64_t FrameCorpus::fingerprint() const {
  FrameFingerprint fingerprint(size());
  for (const FrameSequences* sequences : {&frames, &values}) {
    fingerprint.begin(sequences->width);
    for (const std::int64_t first : sequences->first_frame) fingerprint.first_frame(first);
    fingerprint.values(sequences->values);
  }
  for (const auto& own : labels) fingerprint.labels(own);
  for (const auto& own : resets) fingerprint.labels(own);
  return fingerprint.number();
}

float FrameCorpus::largest_target() const {
  float largest = 0;
  for (const float value : values.values) largest = std::max(largest, std::abs(value));
  return largest;
}

FrameCorpus FrameCorpus::select(std::span<const std::int64_t> indices) const {
  FrameCorpus chosen;
  chosen.frames = data::select(frames, indices);
  chosen.values = data::select(values, indices);
  for (const std::int64_t i : indices) {
    const auto at = static_cast<std::size_t>(i);
    if (!labels.empty()) chosen.labels.push_back(labels[at]);
    if (!resets.empty()) chosen.resets.push_back(resets[at]);
  }
  return chosen;
}

}  // namespace sluice::data
