#include "training/stored_frames.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/check.h"
#include "training/stored_examples.h"

namespace sluice::training {
namespace {

[[noreturn]] void refuse_damaged(std::int64_t example) {
  base::fail(ErrorCode::kFormat,
             "the prepared example {} is none of these files: it is damaged; remove the run's "
             "folder prepared/, and it is made anew",
             example);
}

void append_bits(std::span<const float> numbers, std::vector<std::int32_t>& ids) {
  for (const float number : numbers) ids.push_back(std::bit_cast<std::int32_t>(number));
}

/// Adds a sequence of `width` numbers a step.
void append_sequence(std::span<const std::int32_t> bits, std::int64_t width, std::int64_t example,
                     data::FrameSequences& to) {
  if (std::ssize(bits) % width != 0) refuse_damaged(example);
  to.width = width;
  to.names.emplace_back();
  for (const std::int32_t number : bits) {
    to.values.push_back(std::bit_cast<float>(number));
    if (!std::isfinite(to.values.back())) refuse_damaged(example);
  }
  to.first_frame.push_back(to.first_frame.back() + std::ssize(bits) / width);
}

}  // namespace

StoredFrames::StoredFrames(std::shared_ptr<const ExampleStore> store, std::int64_t features,
                           std::int64_t outputs, std::int64_t labels)
    : store_(std::move(store)), features_(features), outputs_(outputs), labels_(labels) {}

ExampleIds StoredFrames::to_ids(std::span<const float> frames, std::span<const float> values,
                                std::span<const std::int32_t> labels) {
  ExampleIds ids;
  append_bits(frames, ids.source);
  append_bits(values, ids.target);
  ids.target.insert(ids.target.end(), labels.begin(), labels.end());
  return ids;
}

std::vector<data::ExampleLengths> StoredFrames::lengths() const {
  auto lengths = store_->lengths();
  for (auto& length : lengths) {
    length.source /= features_;
    length.target /= std::max<std::int64_t>(outputs_, 1);
  }
  return lengths;
}

data::FrameCorpus StoredFrames::read(std::span<const std::int64_t> rows) const {
  data::FrameCorpus corpus;
  for (const std::int64_t row : rows) {
    ExampleIds ids = store_->read(row);
    append_sequence(ids.source, features_, row, corpus.frames);
    if (outputs_ > 0) {
      append_sequence(ids.target, outputs_, row, corpus.values);
      continue;
    }
    const auto is_label = [&](std::int32_t label) { return label >= 0 && label < labels_; };
    if (!std::ranges::all_of(ids.target, is_label)) refuse_damaged(row);
    corpus.labels.push_back(std::move(ids.target));
  }
  return corpus;
}

data::Batch StoredFrames::assemble(std::span<const std::int64_t> rows) const {
  return assemble_all(read(rows), rows);
}

float StoredFrames::largest_target() const {
  float largest = 0;
  for (std::int64_t i = 0; outputs_ > 0 && i < size(); ++i) {
    largest = std::max(largest, read({&i, 1}).largest_target());
  }
  return largest;
}

data::FrameStatistics StoredFrames::statistics() const {
  return data::statistics_of(features_, [&](const auto& use) {
    for (std::int64_t i = 0; i < size(); ++i) use(read({&i, 1}).frames.values);
  });
}

std::uint64_t StoredFrames::fingerprint() const {
  data::FrameFingerprint fingerprint(size());
  const auto lengths = this->lengths();
  fingerprint.begin(features_);
  std::int64_t first = 0;
  fingerprint.first_frame(first);
  for (const auto& length : lengths) fingerprint.first_frame(first += length.source);
  for (std::int64_t i = 0; i < size(); ++i) fingerprint.values(read({&i, 1}).frames.values);
  fingerprint.begin(outputs_);
  first = 0;
  fingerprint.first_frame(first);
  for (std::int64_t i = 0; outputs_ > 0 && i < size(); ++i) {
    fingerprint.first_frame(first += lengths[static_cast<std::size_t>(i)].target);
  }
  for (std::int64_t i = 0; outputs_ > 0 && i < size(); ++i) {
    fingerprint.values(read({&i, 1}).values.values);
  }
  for (std::int64_t i = 0; outputs_ == 0 && i < size(); ++i) {
    fingerprint.labels(read({&i, 1}).labels.front());
  }
  return fingerprint.number();
}

}  // namespace sluice::training
