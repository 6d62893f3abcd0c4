#pragma once

#include <string_view>

#include "data/conll.h"
#include "data/corpus.h"
#include "data/labels.h"

namespace sluice::data {

/// Sentences with a label for each token, as ids. Without labels (no list of them, or an empty one
/// for every sentence) their batches have no targets.
class TaggedExamples final : public Examples {
 public:
  explicit TaggedExamples(std::vector<std::vector<std::int32_t>> tokens,
                          std::vector<std::vector<std::int32_t>> labels = {});

  std::int64_t size() const override { return ids_.size(); }
  std::vector<ExampleLengths> lengths() const override;
  Batch assemble(std::span<const std::int64_t> rows) const override;
  std::uint64_t fingerprint() const override { return ids_.fingerprint(); }

 private:
  PairCorpus ids_;
  bool labelled_;
};

/// The labels that occur, in byte order. Throws as Labels.
Labels labels_of(std::span<const TaggedSentence> sentences);

/// Ids of the labels of a sentence of the file `path`. Throws ErrorCode::kFormat with file and line
/// for one that is none of `labels`.
std::vector<std::int32_t> encode_labels(const TaggedSentence& sentence, const Labels& labels,
                                        std::string_view path);

/// An id for each token; tokens hold no white space, as ConllReader has them.
std::vector<std::int32_t> encode_tokens(std::span<const std::string> tokens,
                                        const Tokenizer& tokenizer);

struct TaggedReport {
  std::int64_t kept = 0;
  std::int64_t too_long = 0;  ///< dropped
  std::int64_t tokens = 0;
  std::int64_t unknown = 0;  ///< of the tokens kept
};

/// Sentences of the file `path` as ids; those of more than `max_tokens` are left out (0 keeps all).
/// Throws ErrorCode::kFormat with file and line for a label that is none of `labels`, and
/// kInvalidArgument if no sentence is left.
TaggedExamples make_tagged_examples(std::span<const TaggedSentence> sentences,
                                    const Tokenizer& tokenizer, const Labels& labels,
                                    std::int64_t max_tokens, std::string_view path,
                                    TaggedReport* report = nullptr);

}  // namespace sluice::data
