#pragma once

#include <string_view>

namespace sluice::data {

/// Refuses a SentencePiece model whose normalization tables would lead the library outside its
/// memory. The library walks such a table (a double-array trie, J. Aoe, "An efficient digital
/// search algorithm by using a double-array structure", 1989, and behind it the replacement texts)
/// without looking at its bounds; everything else in a model it checks itself. Throws
/// ErrorCode::kFormat.
void require_sound_tables(std::string_view model);

/// The check of one table as the model file holds it: the trie's size in bytes (32 bits, little
/// endian), the trie, texts that end in NUL. An empty table is sound.
bool is_sound_table(std::string_view table);

}  // namespace sluice::data
