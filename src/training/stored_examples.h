#pragma once

#include <memory>

#include "data/corpus.h"
#include "data/text_corpus.h"
#include "training/example_store.h"

namespace sluice::training {

/// The batch of examples that were read from these rows of a store, in order: all of them, which it
/// calls by the rows' numbers.
data::Batch assemble_all(const data::Examples& examples, std::span<const std::int64_t> rows);

/// As data::PairCorpus, of pairs in a store: the same batches and the same fingerprint.
class StoredPairs final : public data::Examples {
 public:
  /// Ids are below these numbers, or the store is damaged.
  StoredPairs(std::shared_ptr<const ExampleStore> store, std::int64_t source_vocabulary,
              std::int64_t target_vocabulary);

  std::int64_t size() const override { return store_->size(); }
  std::vector<data::ExampleLengths> lengths() const override;
  data::Batch assemble(std::span<const std::int64_t> rows) const override;
  /// These read all of the store.
  std::uint64_t fingerprint() const override;
  std::vector<std::int64_t> label_counts(std::int64_t labels) const override;

  ExampleIds read(std::int64_t example) const;
  /// As ExampleStore::for_each.
  void for_each(const ExampleStore::Use& use) const;

 private:
  std::shared_ptr<const ExampleStore> store_;
  std::int64_t source_vocabulary_;
  std::int64_t target_vocabulary_;
};

/// As data::TaggedExamples: the sources of a store are tokens, its targets a label for each.
class StoredSentences final : public data::Examples {
 public:
  StoredSentences(std::shared_ptr<const ExampleStore> store, std::int64_t vocabulary,
                  std::int64_t labels)
      : pairs_(std::move(store), vocabulary, labels) {}

  std::int64_t size() const override { return pairs_.size(); }
  std::vector<data::ExampleLengths> lengths() const override;
  data::Batch assemble(std::span<const std::int64_t> rows) const override;
  /// These read all of the store.
  std::uint64_t fingerprint() const override { return pairs_.fingerprint(); }
  std::vector<std::int64_t> label_counts(std::int64_t labels) const override {
    return pairs_.label_counts(labels);
  }

 private:
  StoredPairs pairs_;
};

/// As data::LabelledCorpus: the sources of a store are tokens, its targets a label for all.
class StoredLabelledTexts final : public data::Examples {
 public:
  StoredLabelledTexts(std::shared_ptr<const ExampleStore> store, std::int64_t vocabulary,
                      std::int64_t labels)
      : pairs_(std::move(store), vocabulary, labels) {}

  std::int64_t size() const override { return pairs_.size(); }
  std::vector<data::ExampleLengths> lengths() const override;
  data::Batch assemble(std::span<const std::int64_t> rows) const override;
  /// These read all of the store.
  std::uint64_t fingerprint() const override;
  std::vector<std::int64_t> label_counts(std::int64_t labels) const override {
    return pairs_.label_counts(labels);
  }

 private:
  StoredPairs pairs_;
};

/// As data::TextCorpus, of the targets in a store.
class StoredTexts final : public data::Examples {
 public:
  StoredTexts(std::shared_ptr<const ExampleStore> store, std::int64_t vocabulary);

  std::int64_t size() const override { return store_->size(); }
  std::vector<data::ExampleLengths> lengths() const override;
  data::Batch assemble(std::span<const std::int64_t> rows) const override;
  /// Reads all of the store.
  std::uint64_t fingerprint() const override;

 private:
  std::vector<std::int32_t> read(std::int64_t example) const;

  std::shared_ptr<const ExampleStore> store_;
  std::int64_t vocabulary_;
};

/// The ids of a store, one behind the other, for a data::StretchCorpus.
class StoredRunningText final : public data::RunningText {
 public:
  StoredRunningText(std::shared_ptr<const ExampleStore> store, std::int64_t vocabulary);

  std::int64_t size() const override { return store_->ids(); }
  void read(std::int64_t begin, std::span<std::int32_t> out) const override;

 private:
  std::shared_ptr<const ExampleStore> store_;
  std::int64_t vocabulary_;
};

}  // namespace sluice::training
