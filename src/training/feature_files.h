#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/frame_corpus.h"
#include "training/feature_resets.h"
#include "training/train_config.h"

namespace sluice::training {

/// Classes are below it: bounds what a wrong label makes of their number.
constexpr std::int64_t kMostFeatureClasses = 1'000'000;

/// Reads sequences of frames with their targets, as a pair of files has them, one after the other.
/// Where both files hold several arrays, targets are those of the same name, else those in the same
/// place. Of targets of whole sequences (model.pooling) all are in memory, of others some. Throws
/// ErrorCode::kFormat, with the file and what in it, if one has no partner or if they don't fit
/// each other; and as data/frames.h.
class FeatureReader {
 public:
  /// `resets` is the file of theirs, or empty.
  FeatureReader(const ModelConfig& model, std::string features, std::string targets,
                const std::string& resets);

  /// Moves on to the next sequence, the first at first; false: there is none.
  bool next();

  const data::FrameReader& frames() const { return frames_; }
  /// Of the targets, for errors: "'dev.npz' array 'utt3'".
  std::string target_name() const;
  /// Values [steps, value_width()] of the targets; empty for classes.
  std::span<const float> values() const;
  std::int64_t value_width() const;
  /// Classes of the targets; empty for values and where a name stands for the class.
  std::span<const std::int32_t> labels() const;
  /// The label of the sequence, of a file of labels; else empty.
  std::string label_name() const;
  bool has_resets() const { return resets_.has_value(); }
  /// A number for each frame, if it has them.
  std::span<const std::int32_t> resets() const { return resets_here_; }
  /// For people: which features the first targets belong to, if only features have names; or empty.
  const std::string& note() const { return note_; }

 private:
  void read_targets_of_sequences(const ModelConfig& model);
  std::int64_t rows() const;
  bool next_targets();
  void require_partner();
  void require_same_count(bool more_features, bool more_targets);

  std::string features_, targets_;
  data::FrameReader frames_;
  std::optional<ResetReader> resets_;
  std::span<const std::int32_t> resets_here_;
  std::optional<data::FrameReader> values_;  ///< of frames; or else
  std::optional<data::LabelReader> labels_;  ///< likewise; or else, of sequences, one of:
  data::FrameSequences value_rows_;
  std::vector<std::int32_t> label_rows_;
  std::vector<std::string> name_rows_;
  bool by_name_ = false;
  std::int64_t at_ = -1;
  std::string note_;
};

/// Sequences of frames with their targets in memory.
struct FeatureExamples {
  data::FrameCorpus corpus;
  std::vector<std::string> names;  ///< of the label of each sequence; empty: corpus.labels are it
  std::string note;                ///< FeatureReader::note()
};

/// Adds the sequence that a reader has come to.
void add_example(const FeatureReader& reader, FeatureExamples& to);

/// All that a FeatureReader gives.
FeatureExamples read_feature_examples(const ModelConfig& model, const std::string& features,
                                      const std::string& targets, const std::string& resets);

}  // namespace sluice::training
