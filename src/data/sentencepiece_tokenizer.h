#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "data/tokenizer.h"

namespace sluice::data {

enum class SentencePieceModel { kUnigram, kBpe };

/// How a SentencePiece model is trained. Same lines and options give the same model to the byte.
struct SentencePieceOptions {
  SentencePieceModel model = SentencePieceModel::kUnigram;
  std::int64_t vocabulary_size = 8000;  ///< the four special ids included
  /// Share of all characters that get an id of their own: 1.0 for alphabets, about 0.9995 for
  /// Chinese and Japanese.
  double character_coverage = 1.0;
  /// Spell characters outside the vocabulary as bytes instead of kUnknownId (takes 256 ids).
  bool byte_fallback = false;
  /// The library's rule for folding equivalent characters: "identity" leaves text as it is (runs of
  /// spaces become one), "nfkc", "nmt_nfkc" and their "_cf" forms (case folded) change it, Chinese
  /// full-width punctuation among the rest.
  std::string normalization = "identity";
  /// At most this many lines are looked at, chosen by `seed`; 0 is all.
  std::int64_t max_lines = 2'000'000;
  std::uint64_t seed = 1;
  /// The unigram trainer adds up its counts thread by thread, so the number is part of what makes
  /// the result and never taken from the machine. More hardly help: most of the work is serial.
  int threads = 1;
};

/// Trains on `lines`. Throws ErrorCode::kInvalidArgument when the library refuses (most often a
/// vocabulary too large or too small for the text; its sentence says which size would do), and
/// ErrorCode::kFormat if a line is not valid UTF-8.
std::unique_ptr<Tokenizer> train_sentencepiece(std::span<const std::string> lines,
                                               const SentencePieceOptions& options = {});

/// From a SentencePiece model file's bytes; load_tokenizer() calls this. Throws ErrorCode::kFormat
/// if they are damaged or if the model does not have pad, unk, bos and eos at 0, 1, 2, 3.
std::unique_ptr<Tokenizer> parse_sentencepiece(std::string_view payload);

}  // namespace sluice::data
