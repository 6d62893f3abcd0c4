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
             "the prepared example {} does not fit these files: it is damaged; remove the run's "
             "folder prepared/, and it is made anew",
             example);
}

void append_bits(std::span<const float> numbers, std::vector<std::int32_t>& ids) {
  for (const float number : numbers) ids.push_back(std::bit_cast<std::int32_t>(number));
}

void require_labels(std::span<const std::int32_t> ids, std::int64_t example, std::int64_t labels) {
  const auto is_label = [&](std::int32_t id) { return id >= 0 && id < labels; };
  if (!std::ranges::all_of(ids, is_label)) refuse_damaged(example);
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
                           std::int64_t outputs, std::int64_t labels, bool resets)
    : store_(std::move(store)),
      features_(features),
      outputs_(outputs),
      labels_(labels),
      resets_(resets) {}

ExampleIds StoredFrames::to_ids(std::span<const float> frames, std::span<const float> values,
                                std::span<const std::int32_t> labels,
                                std::span<const std::int32_t> resets) {
  ExampleIds ids;
  append_bits(frames, ids.source);
  ids.source.insert(ids.source.end(), resets.begin(), resets.end());
  append_bits(values, ids.target);
  ids.target.insert(ids.target.end(), labels.begin(), labels.end());
  return ids;
}

std::vector<data::ExampleLengths> StoredFrames::lengths() const {
  auto lengths = store_->lengths();
  for (auto& length : lengths) {
    length.source /= features_ + (resets_ ? 1 : 0);
    length.target /= std::max<std::int64_t>(outputs_, 1);
  }
  return lengths;
}

void StoredFrames::add(std::int64_t example, std::span<const std::int32_t> source,
                       std::span<const std::int32_t> target, data::FrameCorpus& corpus) const {
  if (resets_) {
    if (std::ssize(source) % (features_ + 1) != 0) refuse_damaged(example);
    const auto resets = source.last(source.size() / static_cast<std::size_t>(features_ + 1));
    require_labels(resets, example, 2);
    corpus.resets.emplace_back(resets.begin(), resets.end());
    source = source.first(source.size() - resets.size());
  }
  append_sequence(source, features_, example, corpus.frames);
  if (outputs_ > 0) return append_sequence(target, outputs_, example, corpus.values);
  require_labels(target, example, labels_);
  corpus.labels.emplace_back(target.begin(), target.end());
}

void StoredFrames::for_each(const std::function<void(const data::FrameCorpus&)>& use) const {
  store_->for_each([&](std::int64_t example, std::span<const std::int32_t> source,
                       std::span<const std::int32_t> target) {
    data::FrameCorpus corpus;
    add(example, source, target, corpus);
    use(corpus);
  });
}

data::Batch StoredFrames::assemble(std::span<const std::int64_t> rows) const {
  data::FrameCorpus corpus;
  for (const std::int64_t row : rows) {
    const ExampleIds ids = store_->read(row);
    add(row, ids.source, ids.target, corpus);
  }
  return assemble_all(corpus, rows);
}

float StoredFrames::largest_target() const {
  float largest = 0;
  if (outputs_ == 0) return largest;
  for_each(
      [&](const data::FrameCorpus& one) { largest = std::max(largest, one.largest_target()); });
  return largest;
}

std::vector<std::int64_t> StoredFrames::label_counts(std::int64_t labels) const {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(labels));
  store_->for_each([&](std::int64_t example, std::span<const std::int32_t>,
                       std::span<const std::int32_t> target) {
    require_labels(target, example, labels);
    for (const std::int32_t label : target) ++counts[static_cast<std::size_t>(label)];
  });
  return counts;
}

data::FrameStatistics StoredFrames::statistics() const {
  return data::statistics_of(features_, [&](const auto& use) {
    for_each([&](const data::FrameCorpus& one) { use(one.frames.values); });
  });
}

// Of frames and then of values: where each sequence begins and ends, then the numbers.
std::uint64_t StoredFrames::fingerprint() const {
  data::FrameFingerprint fingerprint(size());
  const auto lengths = this->lengths();
  const auto begin = [&](std::int64_t width, std::int64_t data::ExampleLengths::*length) {
    fingerprint.begin(width);
    std::int64_t first = 0;
    fingerprint.first_frame(first);
    for (const auto& own : lengths) {
      if (width > 0) fingerprint.first_frame(first += own.*length);
    }
  };
  begin(features_, &data::ExampleLengths::source);
  for_each([&](const data::FrameCorpus& one) { fingerprint.values(one.frames.values); });
  begin(outputs_, &data::ExampleLengths::target);
  for_each([&](const data::FrameCorpus& one) {
    if (outputs_ > 0) return fingerprint.values(one.values.values);
    fingerprint.labels(one.labels.front());
  });
  if (!resets_) return fingerprint.number();
  for_each([&](const data::FrameCorpus& one) { fingerprint.labels(one.resets.front()); });
  return fingerprint.number();
}

}  // namespace sluice::training
