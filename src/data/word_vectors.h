#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "data/tokenizer.h"

namespace sluice::data {

/// Vectors of words from elsewhere, for the pieces of a vocabulary.
struct WordVectors {
  std::vector<std::int32_t> ids;  ///< pieces that the file has, in its order
  std::vector<float> values;      ///< [ids.size(), width]
  std::int64_t words_in_file = 0;
};

/// Reads a text file of word2vec ("words width" in its first line) or GloVe (without), plain or
/// gzip: in each line a word and `width` numbers, separated by spaces or tabs. A word may hold
/// spaces, as GloVe's do; it is then no piece. What the vocabulary lacks is counted and skipped,
/// its numbers unread. Throws ErrorCode::kFormat with file and line for a line of another width,
/// what is no finite float32, a piece that comes twice, more or fewer words than the first line
/// says, and an empty file; else as LineReader. Takes memory for what it keeps only.
WordVectors read_word_vectors(const std::filesystem::path& path, std::int64_t width,
                              const Tokenizer& tokenizer);

}  // namespace sluice::data
