#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sluice/train.h"

namespace sluice {

/// A file of token ids.
struct IdsFile {
  std::string path;
  std::int64_t rows = 0;
  std::int64_t first_ids = 0, second_ids = 0;  ///< of all rows, in each column
};

/// A file with a token, or a label, a line: that of id 0 first.
struct VocabularyFile {
  std::string path;
  std::int64_t size = 0;
};

struct ExportedIds {
  std::vector<IdsFile> ids;
  std::vector<VocabularyFile> vocabularies;
};

/// Writes what `train` would see of its data, as token ids: `<directory>/train.ids` and, if there
/// are examples to validate on, `valid.ids`. For other programs that are to train on the same
/// tokens. A header line `# vocabulary SOURCE TARGET` (ids of each column), then one example a line
/// in the order of the data: two columns of ids with a TAB between, decimal with single spaces
/// between. They are, by model.kind,
///
///   seq2seq         source and target, without the marks of beginning and end
///   language_model  what is fed and what is to be predicted, with those marks; of running text
///                   (training.bptt) the pieces of its stretches, as many lines a batch as the
///                   header then says: `# vocabulary SOURCE TARGET rows N`
///   tagger          tokens and their labels
///   classifier      tokens and the label
///
/// What ids stand for goes to `source.vocab`, `target.vocab` and `labels.txt`, as far as the kind
/// of model has them: pieces as the tokenizer writes them (data::Tokenizer::piece), names of
/// labels. Unless request.quiet, what takes a while is told on standard error. Throws Error, also
/// for features, which have no ids.
ExportedIds export_ids(const TrainRequest& request, const std::string& directory);

}  // namespace sluice
