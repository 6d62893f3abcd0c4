#include "training/feature_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/check.h"
#include "base/counted.h"
#include "data/line_reader.h"
#include "io/name_of_input.h"
#include "training/feature_resets.h"

namespace sluice::training {
namespace {

using base::fail;
using data::FrameSequences;

/// Targets of whole sequences are of one array, whatever the features are of.
void require_one_file(const ModelConfig& model, const std::string& path, const char* wanted) {
  std::error_code ignored;
  if (!path.ends_with(".npz") && !std::filesystem::is_directory(path, ignored)) return;
  fail(ErrorCode::kFormat,
       "{} holds arrays for the frames of sequences, but model.pooling is {}, so that each "
       "sequence has one target: {} is wanted",
       io::name_of_input(path), model.pooling, wanted);
}

/// The array of targets of sequences, [sequences] or [sequences, values].
io::NpyArray read_rows(const std::string& path) {
  io::NpyArray array = io::read_npy(path);
  if (array.shape.empty() || array.shape.size() > 2) {
    fail(ErrorCode::kFormat,
         "{}: an array of shape {} is not one target per sequence, [sequences] or [sequences, "
         "values]; "
         "for one target per frame set model.pooling=none",
         io::name_of_input(path), io::to_string(array.shape));
  }
  return array;
}

FrameSequences values_of_sequences(const std::string& path) {
  io::NpyArray array = read_rows(path);
  if (array.shape.size() == 1) array.shape.push_back(1);
  FrameSequences values;
  data::add_sequences(io::name_of_input(path),
                      {{array.shape[0], 1, array.shape[1]},
                       array.is_integer,
                       std::move(array.floats),
                       std::move(array.integers)},
                      values, "targets");
  return values;
}

std::vector<std::int32_t> classes_of_sequences(const std::string& path) {
  const io::NpyArray array = read_rows(path);
  if (!array.is_integer || array.shape.size() != 1) {
    fail(ErrorCode::kFormat,
         "{}: the classes of sequences must be one array of integers [sequences]",
         io::name_of_input(path));
  }
  std::vector<std::int32_t> labels;
  for (const std::int64_t label : array.integers) {
    if (label < 0 || label >= kMostFeatureClasses) {
      fail(ErrorCode::kFormat, "{}: the class of sequence {} is {}; classes are counted from 0",
           io::name_of_input(path), labels.size(), label);
    }
    labels.push_back(static_cast<std::int32_t>(label));
  }
  return labels;
}

std::vector<std::string> names_of_sequences(const std::string& path) {
  std::vector<std::string> names = data::read_lines(path);
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (!names[i].empty()) continue;
    fail(ErrorCode::kFormat, "{} line {} has no label", io::name_of_input(path), i + 1);
  }
  return names;
}

/// Names sort otherwise than the numbers in them: u10 comes before u2.
std::string note_of_order(const std::vector<std::string>& names, const std::string& targets) {
  std::string first;
  for (std::size_t i = 0; i < std::min<std::size_t>(names.size(), 3); ++i) {
    first += fmt::format("'{}', ", names[i]);
  }
  return fmt::format("targets in {} have no names; they belong, in their order, to {}...",
                     io::name_of_input(targets), first);
}

/// Adds a sequence to those that are in memory.
void append(const std::string& name, std::span<const float> values, std::int64_t width,
            FrameSequences& to) {
  to.width = width;
  to.names.push_back(name);
  to.values.insert(to.values.end(), values.begin(), values.end());
  to.first_frame.push_back(to.first_frame.back() + std::ssize(values) / width);
}

}  // namespace

FeatureReader::FeatureReader(const ModelConfig& model, std::string features, std::string targets,
                             const std::string& resets)
    : features_(std::move(features)), targets_(std::move(targets)), frames_(features_) {
  const std::vector<std::string> names = frames_.arrays().names();
  if (!resets.empty()) resets_.emplace(resets, features_, names);
  const bool per_frame = model.pooling == "none" || model.pooling == "auto";
  if (!per_frame) {
    read_targets_of_sequences(model);
  } else if (model.target == "values") {
    by_name_ = pair_by_name(features_, names, targets_,
                            values_.emplace(targets_, "targets").arrays(), "targets");
  } else {
    by_name_ = pair_by_name(features_, names, targets_,
                            labels_.emplace(targets_, kMostFeatureClasses).arrays(), "targets");
  }
  if (!by_name_ && names.size() > 1) note_ = note_of_order(names, targets_);
}

void FeatureReader::read_targets_of_sequences(const ModelConfig& model) {
  if (model.target == "values") {
    require_one_file(model, targets_, "one .npy array [sequences] or [sequences, values]");
    value_rows_ = values_of_sequences(targets_);
    return;
  }
  require_one_file(model, targets_,
                   "one .npy array of integers [sequences], or a text file with a label a line,");
  if (targets_.ends_with(".npy")) {
    label_rows_ = classes_of_sequences(targets_);
  } else {
    name_rows_ = names_of_sequences(targets_);
  }
}

bool FeatureReader::next_targets() {
  if (values_) return values_->next();
  if (labels_) return labels_->next();
  return at_ < rows();
}

std::int64_t FeatureReader::rows() const {
  return std::max({value_rows_.size(), std::ssize(label_rows_), std::ssize(name_rows_)});
}

bool FeatureReader::next() {
  const bool more = frames_.next();
  ++at_;
  const bool more_targets = next_targets();
  if (more_targets != more) require_same_count(more, more_targets);
  if (more) require_partner();
  if (resets_) {
    if (more) {
      resets_here_ = resets_->next(frames_.name(), frames_.key(), frames_.length());
    } else {
      resets_->finish();
    }
  }
  return more;
}

/// The targets at hand are those of the frames: of the same place in arrays of the same name, and
/// one for each frame.
void FeatureReader::require_partner() {
  if (!values_ && !labels_) return;
  if (by_name_ && frames_.arrays().names().size() > 1) {
    const std::string key = values_ ? values_->key() : labels_->key();
    if (key != frames_.key()) {
      fail(ErrorCode::kFormat,
           "{} stands where targets of {} are wanted; arrays of the same name hold as many "
           "sequences",
           target_name(), frames_.name());
    }
  }
  const std::int64_t steps = values_ ? values_->length() : std::ssize(labels_->labels());
  if (steps == frames_.length()) return;
  const std::string what = fmt::format("{} has targets of {}, but {} has {}", target_name(),
                                       base::counted(steps, "frame"), frames_.name(),
                                       base::counted(frames_.length(), "frame"));
  require_same_count(true, true);  // which says more of what is wrong
  fail(ErrorCode::kFormat, "{}", what);
}

/// Reads both sides to their ends; says how many sequences each has, if they differ. Whether there
/// is one at hand is given.
void FeatureReader::require_same_count(bool more_features, bool more_targets) {
  std::int64_t features = at_, targets = at_;
  for (bool more = more_features; more; more = frames_.next()) ++features;
  if (!values_ && !labels_) {
    targets = rows();
  } else {
    for (bool more = more_targets; more; more = next_targets()) ++targets;
  }
  if (features == targets) return;
  if (!name_rows_.empty()) {
    fail(ErrorCode::kFormat, "{} has {} for {}; it needs one label for each",
         io::name_of_input(targets_), base::counted(targets, "line"),
         base::counted(features, "sequence"));
  }
  fail(ErrorCode::kFormat, "{} has targets of {}, but there are {} with features",
       io::name_of_input(targets_), base::counted(targets, "sequence"), features);
}

std::string FeatureReader::target_name() const {
  if (values_) return values_->name();
  if (labels_) return labels_->name();
  if (name_rows_.empty()) return fmt::format("{} sequence {}", io::name_of_input(targets_), at_);
  return fmt::format("{} line {}", io::name_of_input(targets_), at_ + 1);
}

std::span<const float> FeatureReader::values() const {
  if (values_) return values_->frames();
  if (value_rows_.size() == 0) return {};
  return value_rows_.frames(at_);
}

std::int64_t FeatureReader::value_width() const {
  return values_ ? values_->width() : value_rows_.width;
}

std::span<const std::int32_t> FeatureReader::labels() const {
  if (labels_) return labels_->labels();
  if (label_rows_.empty()) return {};
  return std::span(label_rows_).subspan(static_cast<std::size_t>(at_), 1);
}

std::string FeatureReader::label_name() const {
  return name_rows_.empty() ? "" : name_rows_[static_cast<std::size_t>(at_)];
}

void add_example(const FeatureReader& reader, FeatureExamples& to) {
  const data::FrameReader& frames = reader.frames();
  append(frames.name(), frames.frames(), frames.width(), to.corpus.frames);
  if (reader.value_width() > 0) {
    append(reader.target_name(), reader.values(), reader.value_width(), to.corpus.values);
  } else if (const std::string name = reader.label_name(); !name.empty()) {
    to.names.push_back(name);
  } else {
    to.corpus.labels.emplace_back(reader.labels().begin(), reader.labels().end());
  }
  if (reader.has_resets()) {
    to.corpus.resets.emplace_back(reader.resets().begin(), reader.resets().end());
  }
}

FeatureExamples read_feature_examples(const ModelConfig& model, const std::string& features,
                                      const std::string& targets, const std::string& resets) {
  FeatureReader reader(model, features, targets, resets);
  FeatureExamples examples;
  examples.note = reader.note();
  while (reader.next()) add_example(reader, examples);
  return examples;
}

}  // namespace sluice::training
