#pragma once

#include <map>
#include <memory>
#include <string>

#include "data/labels.h"
#include "data/tokenizer.h"
#include "io/checkpoint.h"

namespace sluice::model_files {

/// The vocabularies that a model may have, each a blob of its checkpoint.
enum class Vocabulary { kSource, kTarget, kLabels };

/// "tokenizer.source", "tokenizer.target", "labels".
const char* blob_name(Vocabulary vocabulary);
/// For messages: "source", "target", "label".
const char* side_name(Vocabulary vocabulary);

/// What turns text into a model's numbers and its numbers into text, kept with it. What a kind of
/// model has no use for is null.
struct Tokenizers {
  std::shared_ptr<const data::Tokenizer> source;  ///< of what it reads
  std::shared_ptr<const data::Tokenizer> target;  ///< of what it writes; may be the same one
  std::shared_ptr<const data::Labels> labels;     ///< that it gives

  bool has(Vocabulary vocabulary) const;
  /// Of one that is there.
  std::int64_t size(Vocabulary vocabulary) const;
  /// "characters, 40 ids", of one that is there.
  std::string describe(Vocabulary vocabulary) const;
  /// Throws ErrorCode::kFormat unless it is there and has `ids`, as a checkpoint's configuration
  /// says.
  void require(Vocabulary vocabulary, std::int64_t ids) const;
};

inline constexpr Vocabulary kVocabularies[] = {Vocabulary::kSource, Vocabulary::kTarget,
                                               Vocabulary::kLabels};

/// Those that are there, by blob_name().
std::map<std::string, std::string> to_blobs(const Tokenizers& tokenizers);
/// The inverse. Throws ErrorCode::kFormat, naming file and blob, for what is damaged.
Tokenizers tokenizers_of(const io::Container& container);

}  // namespace sluice::model_files
