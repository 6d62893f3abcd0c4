#pragma once

#include <utility>

#include "data/vocabulary.h"

namespace sluice::data {

/// A tokenizer whose ids are pieces of a vocabulary, as they stand in the text.
class VocabularyTokenizer : public Tokenizer {
 public:
  std::string decode(std::span<const std::int32_t> ids) const override;
  std::int32_t size() const override { return vocabulary_.size(); }
  std::string piece(std::int32_t id) const override;

 protected:
  /// `between` stands between pieces of a text, `ending` behind each piece of the payload. Both
  /// must outlive this.
  VocabularyTokenizer(Vocabulary vocabulary, std::string_view between, std::string_view ending)
      : vocabulary_(std::move(vocabulary)), between_(between), ending_(ending) {}

  const Vocabulary& vocabulary() const { return vocabulary_; }
  std::string payload() const override;

 private:
  Vocabulary vocabulary_;
  std::string_view between_, ending_;
};

}  // namespace sluice::data
