#include "training/feature_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <unordered_map>

#include "base/check.h"
#include "data/line_reader.h"

namespace sluice::training {
namespace {

using base::fail;
using data::FrameSequences;

/// Targets of whole sequences are of one array, whatever the features are of.
void require_one_file(const ModelConfig& model, const std::string& path, const char* wanted) {
  std::error_code ignored;
  if (!path.ends_with(".npz") && !std::filesystem::is_directory(path, ignored)) return;
  fail(ErrorCode::kFormat,
       "'{}' holds arrays for the frames of sequences, but model.pooling is {}, so that each "
       "sequence has one target: {} is wanted",
       path, model.pooling, wanted);
}

/// The array of targets of sequences, [sequences] or [sequences, values].
data::NpyArray read_rows(const std::string& path, std::int64_t sequences) {
  data::NpyArray array = data::read_npy(path);
  const auto& shape = array.shape;
  if (shape.empty() || shape.size() > 2 || shape[0] != sequences) {
    fail(ErrorCode::kFormat,
         "'{}': an array of shape {} isn't targets of {} sequences, one for each", path,
         data::to_string(shape), sequences);
  }
  return array;
}

FrameSequences values_of_sequences(const std::string& path, const FrameSequences& frames) {
  data::NpyArray array = read_rows(path, frames.size());
  if (array.shape.size() == 1) array.shape.push_back(1);
  FrameSequences values;
  data::add_sequences(fmt::format("'{}'", path),
                      {{array.shape[0], 1, array.shape[1]},
                       array.is_integer,
                       std::move(array.floats),
                       std::move(array.integers)},
                      values, "targets");
  return values;
}

std::vector<std::vector<std::int32_t>> classes_of_sequences(const std::string& path,
                                                            std::int64_t sequences) {
  const data::NpyArray array = read_rows(path, sequences);
  if (!array.is_integer || array.shape.size() != 1) {
    fail(ErrorCode::kFormat, "'{}': classes of sequences are one array of integers [sequences]",
         path);
  }
  std::vector<std::vector<std::int32_t>> labels;
  for (const std::int64_t label : array.integers) {
    if (label < 0 || label >= kMostFeatureClasses) {
      fail(ErrorCode::kFormat, "'{}': the class of sequence {} is {}; classes are counted from 0",
           path, labels.size(), label);
    }
    labels.push_back({static_cast<std::int32_t>(label)});
  }
  return labels;
}

std::vector<std::string> names_of_sequences(const std::string& path, std::int64_t sequences) {
  std::vector<std::string> names = data::read_lines(path);
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i].empty()) fail(ErrorCode::kFormat, "'{}' line {} has no label", path, i + 1);
  }
  if (std::ssize(names) != sequences) {
    fail(ErrorCode::kFormat, "'{}' has {} lines for {} sequences; it needs one label for each",
         path, names.size(), sequences);
  }
  return names;
}

/// For each sequence of features, the place of its targets among those of the keys `keys`.
std::vector<std::int64_t> places_of(const FrameSequences& frames,
                                    const std::vector<std::string>& keys,
                                    const std::string& features, const std::string& targets) {
  std::unordered_map<std::string_view, std::int64_t> unused;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (unused.emplace(keys[i], static_cast<std::int64_t>(i)).second) continue;
    fail(ErrorCode::kFormat, "'{}' has two arrays named '{}'", targets, keys[i]);
  }
  std::vector<std::int64_t> places;
  for (std::size_t i = 0; i < frames.keys.size(); ++i) {
    const auto found = unused.find(frames.keys[i]);
    if (found == unused.end()) {
      fail(ErrorCode::kFormat,
           "'{}' has no targets named '{}', as features of '{}' are{}; arrays of features and of "
           "their targets go by the same names",
           targets, frames.keys[i], features,
           i < keys.size() ? fmt::format(" ('{}' stands in their place)", keys[i]) : "");
    }
    places.push_back(found->second);
    unused.erase(found);
  }
  for (const std::string& key : keys) {
    if (!unused.contains(key)) continue;
    fail(ErrorCode::kFormat,
         "'{}' has no features named '{}', as targets of '{}' are; arrays of features and of their "
         "targets go by the same names",
         features, key, targets);
  }
  return places;
}

/// Brings targets into the order of the features that have the same names.
template <typename Sequences, typename Select>
void pair_by_name(const FrameSequences& frames, Sequences& wanted, const std::string& features,
                  const std::string& targets, const Select& select) {
  if (frames.keys.empty() || wanted.keys.empty() || frames.keys == wanted.keys) return;
  wanted = select(wanted, places_of(frames, wanted.keys, features, targets));
}

data::LabelSequences select_labels(const data::LabelSequences& all,
                                   const std::vector<std::int64_t>& indices) {
  data::LabelSequences chosen;
  for (const std::int64_t index : indices) {
    const auto i = static_cast<std::size_t>(index);
    chosen.names.push_back(all.names[i]);
    chosen.keys.push_back(all.keys[i]);
    chosen.labels.push_back(all.labels[i]);
  }
  return chosen;
}

/// Each sequence's frames and targets must be as many.
template <typename LengthOf>
void check_times(const FrameSequences& frames, const std::vector<std::string>& names,
                 const LengthOf& length_of, const std::string& path) {
  if (std::ssize(names) != frames.size()) {
    fail(ErrorCode::kFormat, "'{}' has targets of {} sequences, but there are {} with features",
         path, names.size(), frames.size());
  }
  for (std::int64_t i = 0; i < frames.size(); ++i) {
    if (length_of(i) == frames.length(i)) continue;
    fail(ErrorCode::kFormat, "{} has targets of {} frames, but {} has {} frames",
         names[static_cast<std::size_t>(i)], length_of(i),
         frames.names[static_cast<std::size_t>(i)], frames.length(i));
  }
}

FrameSequences values_of_frames(const FrameSequences& frames, const std::string& features,
                                const std::string& targets) {
  FrameSequences values = data::read_frames(targets, "targets");
  pair_by_name(frames, values, features, targets,
               [](const auto& all, const auto& places) { return data::select(all, places); });
  check_times(
      frames, values.names, [&](auto i) { return values.length(i); }, targets);
  return values;
}

data::LabelSequences labels_of_frames(const FrameSequences& frames, const std::string& features,
                                      const std::string& targets) {
  data::LabelSequences labels = data::read_frame_labels(targets, kMostFeatureClasses);
  pair_by_name(frames, labels, features, targets, select_labels);
  check_times(
      frames, labels.names,
      [&](auto i) { return std::ssize(labels.labels[static_cast<std::size_t>(i)]); }, targets);
  return labels;
}

/// Names sort otherwise than the numbers in them: u10 comes before u2.
std::string note_of_order(const FrameSequences& frames, const std::string& targets) {
  std::string first;
  for (std::size_t i = 0; i < std::min<std::size_t>(frames.keys.size(), 3); ++i) {
    first += fmt::format("'{}', ", frames.keys[i]);
  }
  return fmt::format("targets in '{}' have no names; they belong, in their order, to {}...",
                     targets, first);
}

}  // namespace

FeatureExamples read_feature_examples(const ModelConfig& model, const std::string& features,
                                      const std::string& targets) {
  FeatureExamples read;
  data::FrameCorpus& corpus = read.corpus;
  corpus.frames = data::read_frames(features);
  const bool per_frame = model.pooling == "none" || model.pooling == "auto";
  const bool values = model.target == "values";
  bool named = false;
  if (values && per_frame) {
    corpus.values = values_of_frames(corpus.frames, features, targets);
    named = !corpus.values.keys.empty();
  } else if (per_frame) {
    data::LabelSequences labels = labels_of_frames(corpus.frames, features, targets);
    named = !labels.keys.empty();
    corpus.labels = std::move(labels.labels);
  } else if (values) {
    require_one_file(model, targets, "one .npy array [sequences] or [sequences, values]");
    corpus.values = values_of_sequences(targets, corpus.frames);
  } else {
    require_one_file(model, targets,
                     "one .npy array of integers [sequences], or a text file with a label a line,");
    if (targets.ends_with(".npy")) {
      corpus.labels = classes_of_sequences(targets, corpus.frames.size());
    } else {
      read.names = names_of_sequences(targets, corpus.frames.size());
    }
  }
  if (!named && !corpus.frames.keys.empty()) read.note = note_of_order(corpus.frames, targets);
  return read;
}

}  // namespace sluice::training
