#include "data/vocabulary.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "base/check.h"

namespace sluice::data {

void PieceCounts::add(std::string_view piece) {
  const auto found = counts_.find(piece);
  if (found != counts_.end()) {
    ++found->second;
  } else {
    counts_.emplace(piece, 1);
  }
}

std::int64_t PieceCounts::largest() const {
  std::int64_t largest = 0;
  for (const auto& [piece, count] : counts_) largest = std::max(largest, count);
  return largest;
}

Vocabulary::Vocabulary(const PieceCounts& counts, const VocabularyOptions& options) {
  SLUICE_CHECK(options.max_size > kFirstPieceId && options.max_size <= INT32_MAX,
               "a vocabulary's max_size must be at least {} ({} ids are special), not {}",
               kFirstPieceId + 1, kFirstPieceId, options.max_size);
  std::vector<std::pair<std::int64_t, std::string_view>> ranked;
  for (const auto& [piece, count] : counts.counts_) {
    if (count >= options.min_count) ranked.emplace_back(count, piece);
  }
  std::sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  });
  const auto room = static_cast<std::size_t>(options.max_size - kFirstPieceId);
  ranked.resize(std::min(ranked.size(), room));
  SLUICE_CHECK(!ranked.empty(),
               "no piece of the training text occurs {} times or more; a vocabulary needs text",
               options.min_count);
  for (const auto& [count, piece] : ranked) pieces_.emplace_back(piece);
  index_pieces();
}

Vocabulary::Vocabulary(std::vector<std::string> pieces) : pieces_(std::move(pieces)) {
  index_pieces();
}

void Vocabulary::index_pieces() {
  ids_.reserve(pieces_.size());
  std::int32_t next = kFirstPieceId;
  for (const std::string& piece : pieces_) {
    const bool fresh = !piece.empty() && ids_.emplace(piece, next).second;
    if (!fresh) {
      base::fail(ErrorCode::kFormat, "the vocabulary is damaged: piece {} ('{}') is {}", next,
                 piece, piece.empty() ? "empty" : "there twice");
    }
    ++next;
  }
}

std::int32_t Vocabulary::size() const {
  return kFirstPieceId + static_cast<std::int32_t>(pieces_.size());
}

std::int32_t Vocabulary::id(std::string_view piece) const {
  const auto found = ids_.find(piece);
  return found == ids_.end() ? kUnknownId : found->second;
}

std::string Vocabulary::piece(std::int32_t id) const {
  if (id < kFirstPieceId) return std::string(special_piece(id));
  return pieces_.at(static_cast<std::size_t>(id - kFirstPieceId));
}

std::string_view special_piece(std::int32_t id) {
  constexpr std::array<std::string_view, kFirstPieceId> kNames{"<pad>", "<unk>", "<s>", "</s>"};
  return kNames.at(static_cast<std::size_t>(id));
}

}  // namespace sluice::data
