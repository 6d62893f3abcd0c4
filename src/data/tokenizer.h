#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::data {

/// Ids that mean the same in every tokenizer.
inline constexpr std::int32_t kPadId = 0;
inline constexpr std::int32_t kUnknownId = 1;
inline constexpr std::int32_t kBosId = 2;
inline constexpr std::int32_t kEosId = 3;
/// Ids from here on are pieces of text.
inline constexpr std::int32_t kFirstPieceId = 4;
/// How decode() shows kUnknownId: U+2047.
inline constexpr std::string_view kUnknownText = "\xE2\x81\x87";

/// Turns text into ids and back. Immutable once made: any number of threads may use one.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// The ids of `text`, without bos and eos; what the vocabulary lacks becomes kUnknownId. Text
  /// that spells a special piece ("</s>") is ordinary text. Throws ErrorCode::kFormat with the byte
  /// offset if `text` is not valid UTF-8.
  virtual std::vector<std::int32_t> encode(std::string_view text) const = 0;

  /// The text of `ids`: pad, bos and eos vanish, kUnknownId shows as kUnknownText.
  /// Throws ErrorCode::kInvalidArgument on an id outside [0, size()).
  virtual std::string decode(std::span<const std::int32_t> ids) const = 0;

  /// Number of ids, the four special ones included.
  virtual std::int32_t size() const = 0;

  /// How one id is written in a vocabulary listing: "<pad>", "<unk>", "<s>", "</s>" or a piece.
  virtual std::string piece(std::int32_t id) const = 0;

  /// "words", "word_shapes", "characters", "sentencepiece" or "smiles".
  virtual std::string_view kind() const = 0;

  /// The bytes that a checkpoint stores and load_tokenizer() takes: one line of text (kind, payload
  /// size, CRC-32), then the payload. The payload of `words` is one word a line (and
  /// that of `word_shapes`, of `smiles` one token), that of
  /// `characters` the characters one after the other, both from kFirstPieceId on; that of
  /// `sentencepiece` is the library's own model file.
  std::string serialize() const;

 protected:
  virtual std::string payload() const = 0;
  /// Throws unless `id` is in [0, size()).
  void require_id(std::int32_t id) const;
};

/// The inverse of Tokenizer::serialize(). Throws ErrorCode::kFormat if `bytes` are not a tokenizer,
/// damaged, truncated, or of a newer revision.
std::unique_ptr<Tokenizer> load_tokenizer(std::string_view bytes);

}  // namespace sluice::data
