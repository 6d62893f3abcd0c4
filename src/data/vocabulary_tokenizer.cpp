#include "data/vocabulary_tokenizer.h"

namespace sluice::data {

std::string VocabularyTokenizer::decode(std::span<const std::int32_t> ids) const {
  std::string text;
  for (const std::int32_t id : ids) {
    require_id(id);
    if (id < kFirstPieceId && id != kUnknownId) continue;
    if (!text.empty()) text += between_;
    text += id == kUnknownId ? kUnknownText : vocabulary_.piece(id);
  }
  return text;
}

std::string VocabularyTokenizer::piece(std::int32_t id) const {
  require_id(id);
  return vocabulary_.piece(id);
}

std::string VocabularyTokenizer::payload() const {
  std::string all;
  for (const std::string& piece : vocabulary_.pieces()) {
    all += piece;
    all += ending_;
  }
  return all;
}

}  // namespace sluice::data
