#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data/corpus.h"
#include "data/line_reader.h"
#include "training/train_config.h"

namespace sluice::training {

/// Reads the examples to train on that a configuration names, one after the other. Those of a
/// language model are pairs without a source.
class ExampleReader {
 public:
  /// Throws ErrorCode::kInvalidArgument if no file is named, or standard input, which can't be read
  /// twice; else as data::LineReader.
  explicit ExampleReader(const TrainConfig& config);

  /// Nothing at the end. Errors as data::read_tsv_pairs(), data::read_aligned_pairs() and
  /// read_language_model_text().
  std::optional<data::TextPair> next();

  /// The files, in the order in which they are named.
  static std::vector<std::string> files(const TrainConfig& config);

 private:
  std::optional<data::TextPair> next_aligned();

  std::vector<data::LineReader> readers_;
  bool text_;    ///< of a language model
  bool smiles_;  ///< whose texts are molecules
};

}  // namespace sluice::training
