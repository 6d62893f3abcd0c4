#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "interchange/source_model.h"
#include "io/checkpoint.h"

namespace sluice::interchange {

/// Choices for a model of Sluice that its source does not make.
struct AssembleOptions {
  /// "features", "language_model", "tagger", "classifier" or "seq2seq"; empty: found.
  std::string kind = {};
  /// The text of each id of the source, or of each label; empty: numbers.
  std::vector<std::string> words = {}, labels = {};
  /// The text of each id that an encoder-decoder writes.
  std::vector<std::string> target_words = {};
  /// Ids of the source that mean padding, unknown, begin and end. Of an encoder-decoder the first
  /// two are ids that it reads, and the others ids that it writes.
  std::optional<std::int64_t> pad = {}, unknown = {}, begin = {}, end = {};
};

/// A model of Sluice made of a source.
struct Assembled {
  /// The layer of the model that puts out what a layer of the source does.
  struct Pair {
    std::size_t source;                ///< its index in SourceModel::layers, decoder behind them
    std::string layer;                 ///< the name in `sluice check`: "stack.l0", "output"
    std::vector<std::int64_t> places;  ///< of each number that the source's layer puts out
  };
  std::string kind;
  io::Container container;
  std::vector<std::int32_t> ids = {};         ///< the model's id of each id of the source
  std::vector<std::int32_t> target_ids = {};  ///< of each that an encoder-decoder writes
  std::vector<Pair> pairs = {};               ///< recurrent layers, then the output
};

/// Makes a checkpoint (docs/checkpoint.md) of a chain, and adds to its account. Ids get the four
/// special ones before them. Throws ErrorCode::kUnsupported, naming the layers, for a chain that no
/// kind of model holds, and kInvalidArgument for options that don't fit it.
Assembled assemble(SourceModel& source, const AssembleOptions& options);

}  // namespace sluice::interchange
