#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "data/tokenizer.h"
#include "data/vocabulary.h"

namespace sluice::data {

/// Molecules as SMILES (Weininger 1988; the OpenSMILES specification), an id for each atom, bond,
/// bracket of a branch, ring-bond number, dot and arrow of a reaction:
///
///   an atom in square brackets, whole: [C@@H], [NH4+], [13CH3]
///   one of B C N O P S F I Cl Br At Ts, aromatic b c n o p s, or *
///   a ring-bond number: a digit, %dd or %(d...)
///   - = # $ : / \ . ( ) >
///
/// decode(encode(text)) is `text` where the vocabulary is complete. What can't be split so is
/// refused: encode() throws ErrorCode::kFormat with the byte offset, and so does this with the
/// line. kInvalidArgument if no token is left for the vocabulary.
std::unique_ptr<Tokenizer> train_smiles_tokenizer(std::span<const std::string> lines,
                                                  const VocabularyOptions& options = {});

/// Throws ErrorCode::kFormat, naming the text as `what`, unless it can be split so.
void require_smiles(std::string_view text, std::string_view what);

/// From what Tokenizer::serialize() calls the payload; load_tokenizer() calls this.
std::unique_ptr<Tokenizer> parse_smiles_tokenizer(std::string_view payload);

}  // namespace sluice::data
