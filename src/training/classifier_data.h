#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data/table.h"
#include "training/train_config.h"
#include "training/train_data.h"

namespace sluice::training {

/// Reads the tables that [data] names, makes a tokenizer of the training examples and labels of
/// data.table (or takes those of a checkpoint: `saved` when resuming, else as
/// initial_tokenizers()), and turns the examples into ids. Throws ErrorCode::kInvalidArgument if
/// [data] names no table or too many or if no example is left, kFormat with file and line for a
/// label that isn't known or is missing, else as data::read_table and data::train_tokenizer.
TrainData read_classifier_data(const TrainConfig& config, const Tokenizers* saved,
                               const base::Watch& watch = {});

/// A text and its label, and where they stand.
struct LabelledText {
  std::string text, label, where;
};

/// Reads the rows of a table one after the other, by the columns that [data] names.
class LabelledTextReader {
 public:
  LabelledTextReader(const DataConfig& config, const std::string& path);

  /// Nothing at the end. Throws ErrorCode::kFormat, with file and line, for a row without label;
  /// else as data::TableReader.
  std::optional<LabelledText> next();

 private:
  data::TableReader table_;
  std::string path_;
  std::string label_name_;
  std::size_t text_, label_;
};

/// Refuses a [data] that names no table, or both one to validate on and examples to hold out.
void require_table(const DataConfig& config);
/// Of data.validation_table; nothing if it isn't set.
std::vector<LabelledText> read_classifier_validation(const DataConfig& config);
/// The vocabulary of these texts, segmented.
std::shared_ptr<const data::Tokenizer> make_classifier_vocabulary(
    const TrainConfig& config, const std::vector<LabelledText>& texts, const base::Watch& watch);
/// Throws ErrorCode::kFormat with its place for a label that is none of `labels`.
std::int32_t label_of(const LabelledText& text, const data::Labels& labels);
/// A line for people on what was read of a part. Throws ErrorCode::kInvalidArgument if nothing is
/// left.
std::string classifier_summary(const char* part, std::int64_t kept, std::int64_t labels,
                               std::int64_t tokens, std::int64_t too_long, std::int64_t empty);
/// Texts to validate on, which it segments, with vocabulary and labels of `data`, and what is made
/// of them; nothing if there are none.
void add_classifier_validation(const TrainConfig& config, std::vector<LabelledText> texts,
                               TrainData& data, const base::Watch& watch);

}  // namespace sluice::training
