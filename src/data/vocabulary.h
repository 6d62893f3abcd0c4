#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "data/tokenizer.h"

namespace sluice::data {

/// Which pieces of a training text are kept.
struct VocabularyOptions {
  std::int64_t max_size = 32000;  ///< most ids, the four special ones included
  std::int64_t min_count = 1;     ///< rarer pieces are left out
};

/// How often each piece occurs.
class PieceCounts {
 public:
  void add(std::string_view piece);
  /// How often the most frequent one does; 0 if there is none.
  std::int64_t largest() const;

 private:
  friend class Vocabulary;
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>{}(text);
    }
  };
  std::unordered_map<std::string, std::int64_t, Hash, std::equal_to<>> counts_;
};

/// Distinct pieces in id order, from kFirstPieceId on.
class Vocabulary {
 public:
  /// The most frequent pieces first; pieces of equal count in byte order.
  Vocabulary(const PieceCounts& counts, const VocabularyOptions& options);
  /// Throws ErrorCode::kFormat if a piece is empty or stands there twice.
  explicit Vocabulary(std::vector<std::string> pieces);

  std::int32_t size() const;
  /// kUnknownId if `piece` is not in the vocabulary.
  std::int32_t id(std::string_view piece) const;
  /// `id` in [0, size()); the spelling of special ids is that of special_piece().
  std::string piece(std::int32_t id) const;
  const std::vector<std::string>& pieces() const { return pieces_; }

 private:
  void index_pieces();

  std::vector<std::string> pieces_;
  std::unordered_map<std::string, std::int32_t, PieceCounts::Hash, std::equal_to<>> ids_;
};

/// "<pad>", "<unk>", "<s>", "</s>" for ids 0 to 3.
std::string_view special_piece(std::int32_t id);

}  // namespace sluice::data
