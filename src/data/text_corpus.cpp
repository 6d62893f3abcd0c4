#include "data/text_corpus.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "data/corpus.h"
#include "data/shuffle.h"
#include "data/tokenizer.h"

namespace sluice::data {
namespace {

// What is fed to predict `wanted`: bos, which also begins each line of a running text, or the token
// before.
std::int32_t token_after(std::int32_t wanted) { return wanted == kEosId ? kBosId : wanted; }

std::uint64_t absorb(std::uint64_t hash, std::uint64_t value) {
  return SplitMix::mix(hash ^ value);
}

Batch empty_batch(std::int64_t rows, std::int64_t time) {
  Batch batch;
  batch.rows = rows;
  batch.target_time = time;
  const auto cells = static_cast<std::size_t>(rows * time);
  batch.target_in.assign(cells, kPadId);
  batch.target_out.assign(cells, kPadId);
  return batch;
}

void require_rows(std::span<const std::int64_t> rows, std::int64_t examples) {
  SLUICE_CHECK(!rows.empty(), "a batch needs at least one row");
  for (const std::int64_t row : rows) {
    SLUICE_CHECK(row >= 0 && row < examples, "there is no example {}; there are {}", row, examples);
  }
}

class TextInMemory final : public RunningText {
 public:
  explicit TextInMemory(std::span<const std::vector<std::int32_t>> texts) {
    for (const auto& text : texts) {
      text_.insert(text_.end(), text.begin(), text.end());
      text_.push_back(kEosId);
    }
  }
  std::int64_t size() const override { return std::ssize(text_); }
  void read(std::int64_t begin, std::span<std::int32_t> out) const override {
    std::copy_n(text_.begin() + begin, out.size(), out.begin());
  }

 private:
  std::vector<std::int32_t> text_;
};

}  // namespace

TextCorpus::TextCorpus(std::vector<std::vector<std::int32_t>> texts_in, FeatureVectors vectors_in)
    : texts(std::move(texts_in)), vectors(std::move(vectors_in)) {
  SLUICE_CHECK(vectors.width == 0 || vectors.size() == size(),
               "there are {} feature vectors for {} texts; each needs one", vectors.size(), size());
}

std::vector<ExampleLengths> TextCorpus::lengths() const {
  std::vector<ExampleLengths> lengths;
  lengths.reserve(texts.size());
  for (const auto& text : texts) lengths.push_back({0, std::ssize(text) + 1});
  return lengths;
}

Batch TextCorpus::assemble(std::span<const std::int64_t> rows) const {
  require_rows(rows, size());
  std::int64_t time = 0;
  for (const std::int64_t row : rows) {
    time = std::max(time, std::ssize(texts[static_cast<std::size_t>(row)]) + 1);
  }
  Batch batch = empty_batch(std::ssize(rows), time);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const std::vector<std::int32_t>& text = texts[static_cast<std::size_t>(rows[r])];
    std::int32_t fed = kBosId;
    for (std::size_t t = 0; t <= text.size(); ++t) {
      const std::size_t place = t * rows.size() + r;
      batch.target_in[place] = fed;
      fed = batch.target_out[place] = t < text.size() ? text[t] : kEosId;
    }
    batch.target_lengths.push_back(static_cast<std::int32_t>(text.size()) + 1);
    batch.global_row.push_back(rows[r]);
  }
  if (vectors.width == 0) return batch;
  batch.source_time = 1;
  batch.source_lengths.assign(rows.size(), 0);  // they aren't steps
  batch.features = vectors.select(rows).values;
  return batch;
}

std::uint64_t TextCorpus::fingerprint() const {
  std::uint64_t hash = begin_fingerprint(size());
  for (const auto& text : texts) hash = absorb_text(hash, text);
  for (const float value : vectors.values) hash = absorb(hash, std::bit_cast<std::uint32_t>(value));
  return hash;
}

std::uint64_t absorb_text(std::uint64_t hash, std::span<const std::int32_t> text) {
  hash = absorb(hash, text.size());
  for (const std::int32_t id : text) hash = absorb(hash, static_cast<std::uint64_t>(id));
  return hash;
}

StretchCorpus::StretchCorpus(std::span<const std::vector<std::int32_t>> texts,
                             std::int64_t stretches, std::int64_t steps)
    : StretchCorpus(std::make_shared<TextInMemory>(texts), stretches, steps) {}

StretchCorpus::StretchCorpus(std::shared_ptr<const RunningText> text, std::int64_t stretches,
                             std::int64_t steps)
    : text_(std::move(text)), steps_(steps) {
  SLUICE_CHECK(stretches >= 1 && steps >= 1, "{} stretches in batches of {} steps can't be",
               stretches, steps);
  const std::int64_t tokens = text_->size();
  SLUICE_CHECK(tokens >= 1, "there is no text to make batches of");
  stretches_ = std::min(stretches, tokens);
  const std::int64_t longest = (tokens + stretches_ - 1) / stretches_;
  batches_ = (longest + steps - 1) / steps;
}

std::int64_t StretchCorpus::begin_of(std::int64_t example) const {
  const std::int64_t stretch = example % stretches_, tokens = text_->size();
  // The first tokens % stretches of them have one token more.
  return stretch * (tokens / stretches_) + std::min(stretch, tokens % stretches_) +
         example / stretches_ * steps_;
}

std::int64_t StretchCorpus::length_of(std::int64_t example) const {
  const std::int64_t stretch = example % stretches_, tokens = text_->size();
  const std::int64_t whole = tokens / stretches_ + (stretch < tokens % stretches_ ? 1 : 0);
  return std::clamp<std::int64_t>(whole - example / stretches_ * steps_, 0, steps_);
}

std::vector<ExampleLengths> StretchCorpus::lengths() const {
  std::vector<ExampleLengths> lengths;
  lengths.reserve(static_cast<std::size_t>(size()));
  for (std::int64_t example = 0; example < size(); ++example) {
    lengths.push_back({0, length_of(example)});
  }
  return lengths;
}

Batch StretchCorpus::assemble(std::span<const std::int64_t> rows) const {
  require_rows(rows, size());
  // The first stretch is never shorter than another.
  Batch batch = empty_batch(std::ssize(rows), length_of(rows[0]));
  batch.source_time = 1;
  batch.source_lengths.assign(rows.size(), 0);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    SLUICE_CHECK(rows[r] == rows[0] + static_cast<std::int64_t>(r) && rows[0] % stretches_ == 0,
                 "a batch of running text is one piece of every stretch, in order");
    const std::int64_t length = length_of(rows[r]);
    // With the token before, which is fed first.
    const std::int64_t begin = begin_of(rows[r]), before = begin > 0 ? 1 : 0;
    std::vector<std::int32_t> piece(static_cast<std::size_t>(length > 0 ? length + before : 0));
    text_->read(begin - before, piece);
    for (std::size_t t = 0; t < static_cast<std::size_t>(length); ++t) {
      const std::size_t place = t * rows.size() + r, at = t + static_cast<std::size_t>(before);
      batch.target_in[place] = at == 0 ? kBosId : token_after(piece[at - 1]);
      batch.target_out[place] = piece[at];
    }
    batch.source.push_back(rows[r] < stretches_ ? 0 : static_cast<std::int32_t>(r) + 1);
    batch.target_lengths.push_back(static_cast<std::int32_t>(length));
    batch.global_row.push_back(rows[r]);
  }
  return batch;
}

std::uint64_t StretchCorpus::fingerprint() const {
  std::uint64_t hash = SplitMix::mix(static_cast<std::uint64_t>(stretches_));
  hash = absorb(hash, static_cast<std::uint64_t>(steps_));
  std::vector<std::int32_t> piece;
  for (std::int64_t begin = 0; begin < text_->size(); begin += std::ssize(piece)) {
    piece.resize(static_cast<std::size_t>(std::min<std::int64_t>(text_->size() - begin, 65536)));
    text_->read(begin, piece);
    for (const std::int32_t id : piece) hash = absorb(hash, static_cast<std::uint64_t>(id));
  }
  return hash;
}

}  // namespace sluice::data
