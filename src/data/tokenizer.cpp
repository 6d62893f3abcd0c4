#include "data/tokenizer.h"

#include "base/check.h"
#include "data/char_tokenizer.h"
#include "data/sentencepiece_tokenizer.h"
#include "data/smiles_tokenizer.h"
#include "data/word_tokenizer.h"
#include "io/checksummed_blob.h"

namespace sluice::data {
namespace {

constexpr io::BlobFormat kBlobFormat{"sluice-tokenizer", "tokenizer"};

}  // namespace

std::string Tokenizer::serialize() const { return kBlobFormat.write(kind(), payload()); }

void Tokenizer::require_id(std::int32_t id) const {
  SLUICE_CHECK(id >= 0 && id < size(), "token id {} is outside the vocabulary of {} ids", id,
               size());
}

std::unique_ptr<Tokenizer> load_tokenizer(std::string_view bytes) {
  const auto [kind, payload] = kBlobFormat.read(bytes);
  if (kind == "words") return parse_word_tokenizer(payload);
  if (kind == "word_shapes") return parse_word_shape_tokenizer(payload);
  if (kind == "characters") return parse_char_tokenizer(payload);
  if (kind == "sentencepiece") return parse_sentencepiece(payload);
  if (kind == "smiles") return parse_smiles_tokenizer(payload);
  base::fail(ErrorCode::kFormat,
             "the stored tokenizer is of the unknown kind '{}'; this program knows words, "
             "word_shapes, characters, sentencepiece and smiles",
             kind);
}

}  // namespace sluice::data
