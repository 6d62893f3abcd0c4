#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "data/tokenizer.h"
#include "interchange/assemble.h"

namespace sluice::interchange {

/// The vocabulary of a model that knows ids alone.
struct SourceVocabulary {
  std::shared_ptr<const data::Tokenizer> tokenizer;
  std::vector<std::int32_t> ids;  ///< the tokenizer's id of each id of the source
};

/// A vocabulary for a source with so many ids: the texts of `options`, else ids
/// as decimal numbers. They are characters if each is one and `options.kind` is no tagger, which
/// reads its tokens apart; else words. Adds to the source's account, which names the option that
/// gives the texts, "--words". Throws ErrorCode::kInvalidArgument for texts of another number, and
/// for special ids that the source lacks.
SourceVocabulary vocabulary_of(SourceModel& source, std::int64_t count,
                               const AssembleOptions& options, std::string_view texts_option);

}  // namespace sluice::interchange
