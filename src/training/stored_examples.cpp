#include "training/stored_examples.h"

#include <numeric>

#include "base/check.h"
#include "data/labelled_corpus.h"
#include "data/tagged_examples.h"

namespace sluice::training {
namespace {

void require_ids(std::span<const std::int32_t> ids, std::int64_t vocabulary) {
  for (const std::int32_t id : ids) {
    if (id >= 0 && id < vocabulary) continue;
    base::fail(ErrorCode::kFormat,
               "the prepared examples hold the token {}, but the vocabulary has {} ids: they are "
               "damaged; remove the run's folder prepared/, and they are made anew",
               id, vocabulary);
  }
}

std::int32_t label_of(std::span<const std::int32_t> target, std::int64_t example) {
  if (target.size() != 1) {
    base::fail(ErrorCode::kFormat,
               "the prepared example {} has {} labels: it is damaged; remove the run's folder "
               "prepared/, and it is made anew",
               example, target.size());
  }
  return target.front();
}

}  // namespace

data::Batch assemble_all(const data::Examples& examples, std::span<const std::int64_t> rows) {
  std::vector<std::int64_t> places(rows.size());
  std::iota(places.begin(), places.end(), std::int64_t{0});
  data::Batch batch = examples.assemble(places);
  batch.global_row.assign(rows.begin(), rows.end());
  return batch;
}

StoredPairs::StoredPairs(std::shared_ptr<const ExampleStore> store, std::int64_t source_vocabulary,
                         std::int64_t target_vocabulary)
    : store_(std::move(store)),
      source_vocabulary_(source_vocabulary),
      target_vocabulary_(target_vocabulary) {}

std::vector<data::ExampleLengths> StoredPairs::lengths() const {
  auto lengths = store_->lengths();
  for (auto& length : lengths) ++length.target;
  return lengths;
}

ExampleIds StoredPairs::read(std::int64_t example) const {
  ExampleIds ids = store_->read(example);
  require_ids(ids.source, source_vocabulary_);
  require_ids(ids.target, target_vocabulary_);
  return ids;
}

void StoredPairs::for_each(const ExampleStore::Use& use) const {
  store_->for_each([&](std::int64_t example, std::span<const std::int32_t> source,
                       std::span<const std::int32_t> target) {
    require_ids(source, source_vocabulary_);
    require_ids(target, target_vocabulary_);
    use(example, source, target);
  });
}

data::Batch StoredPairs::assemble(std::span<const std::int64_t> rows) const {
  data::PairCorpus read_rows;
  for (const std::int64_t row : rows) {
    ExampleIds ids = read(row);
    read_rows.source.push_back(std::move(ids.source));
    read_rows.target.push_back(std::move(ids.target));
  }
  return assemble_all(read_rows, rows);
}

std::uint64_t StoredPairs::fingerprint() const {
  std::uint64_t hash = data::begin_fingerprint(size());
  for_each([&](std::int64_t, std::span<const std::int32_t> source,
               std::span<const std::int32_t> target) {
    hash = data::absorb_pair(hash, source, target);
  });
  return hash;
}

std::vector<std::int64_t> StoredPairs::label_counts(std::int64_t labels) const {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(labels));
  store_->for_each(
      [&](std::int64_t, std::span<const std::int32_t>, std::span<const std::int32_t> target) {
        require_ids(target, labels);
        for (const std::int32_t label : target) ++counts[static_cast<std::size_t>(label)];
      });
  return counts;
}

std::vector<data::ExampleLengths> StoredSentences::lengths() const {
  auto lengths = pairs_.lengths();
  for (auto& length : lengths) length.target = length.source;
  return lengths;
}

data::Batch StoredSentences::assemble(std::span<const std::int64_t> rows) const {
  std::vector<std::vector<std::int32_t>> tokens, labels;
  for (const std::int64_t row : rows) {
    ExampleIds ids = pairs_.read(row);
    tokens.push_back(std::move(ids.source));
    labels.push_back(std::move(ids.target));
  }
  return assemble_all(data::TaggedExamples(std::move(tokens), std::move(labels)), rows);
}

std::vector<data::ExampleLengths> StoredLabelledTexts::lengths() const {
  auto lengths = pairs_.lengths();
  for (auto& length : lengths) length.target = 1;
  return lengths;
}

data::Batch StoredLabelledTexts::assemble(std::span<const std::int64_t> rows) const {
  data::LabelledCorpus read_rows;
  for (const std::int64_t row : rows) {
    ExampleIds ids = pairs_.read(row);
    read_rows.source.push_back(std::move(ids.source));
    read_rows.labels.push_back(label_of(ids.target, row));
  }
  return assemble_all(read_rows, rows);
}

std::uint64_t StoredLabelledTexts::fingerprint() const {
  std::uint64_t hash = data::begin_labelled_fingerprint(size());
  std::vector<std::int32_t> labels;
  labels.reserve(static_cast<std::size_t>(size()));
  pairs_.for_each([&](std::int64_t example, std::span<const std::int32_t> tokens,
                      std::span<const std::int32_t> target) {
    hash = data::absorb_sequence(hash, tokens);
    labels.push_back(label_of(target, example));
  });
  for (const std::int32_t label : labels) {
    hash = data::absorb_number(hash, static_cast<std::uint32_t>(label));
  }
  return hash;
}

StoredTexts::StoredTexts(std::shared_ptr<const ExampleStore> store, std::int64_t vocabulary)
    : store_(std::move(store)), vocabulary_(vocabulary) {}

std::vector<data::ExampleLengths> StoredTexts::lengths() const {
  auto lengths = store_->lengths();
  for (auto& length : lengths) ++length.target;
  return lengths;
}

std::vector<std::int32_t> StoredTexts::read(std::int64_t example) const {
  std::vector<std::int32_t> ids = store_->read(example).target;
  require_ids(ids, vocabulary_);
  return ids;
}

data::Batch StoredTexts::assemble(std::span<const std::int64_t> rows) const {
  data::TextCorpus read_rows;
  for (const std::int64_t row : rows) read_rows.texts.push_back(read(row));
  return assemble_all(read_rows, rows);
}

std::uint64_t StoredTexts::fingerprint() const {
  std::uint64_t hash = data::begin_fingerprint(size());
  store_->for_each(
      [&](std::int64_t, std::span<const std::int32_t>, std::span<const std::int32_t> text) {
        require_ids(text, vocabulary_);
        hash = data::absorb_text(hash, text);
      });
  return hash;
}

StoredRunningText::StoredRunningText(std::shared_ptr<const ExampleStore> store,
                                     std::int64_t vocabulary)
    : store_(std::move(store)), vocabulary_(vocabulary) {}

void StoredRunningText::read(std::int64_t begin, std::span<std::int32_t> out) const {
  store_->read_ids(begin, out);
  require_ids(out, vocabulary_);
}

}  // namespace sluice::training
