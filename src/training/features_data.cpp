#include "training/features_data.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "data/corpus.h"
#include "training/feature_files.h"
#include "training/initial_weights.h"
#include "training/preparing.h"
#include "training/sample_answers.h"

namespace sluice::training {
namespace {

using base::fail;
using data::FrameCorpus;

data::Labels labels_of(const FeatureExamples& read) {
  std::vector<std::string> names = read.names;
  if (!names.empty()) {
    std::sort(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
    return data::Labels(std::move(names));
  }
  std::int32_t largest = 0;
  for (const auto& labels : read.corpus.labels) {
    for (const std::int32_t label : labels) largest = std::max(largest, label);
  }
  for (std::int32_t label = 0; label <= largest; ++label) names.push_back(std::to_string(label));
  return data::Labels(std::move(names));
}

/// Turns names into classes, and refuses classes that are none of the labels.
void find_labels(FeatureExamples& read, const data::Labels& labels, const std::string& path) {
  for (std::size_t i = 0; i < read.names.size(); ++i) {
    const auto label = labels.find(read.names[i]);
    if (!label) {
      fail(ErrorCode::kFormat, "'{}' line {}: the label '{}' is none of the {} that training has",
           path, i + 1, read.names[i].substr(0, 100), labels.size());
    }
    read.corpus.labels.push_back({*label});
  }
  for (std::size_t i = 0; i < read.corpus.labels.size(); ++i) {
    for (const std::int32_t label : read.corpus.labels[i]) {
      if (label < labels.size()) continue;
      fail(ErrorCode::kFormat, "'{}': sequence {} has class {}, but training has only 0 to {}",
           path, i, label, labels.size() - 1);
    }
  }
}

/// Leaves out what can't be trained on, and says so.
std::shared_ptr<const FrameCorpus> usable(const FrameCorpus& corpus, std::int64_t most,
                                          const char* name, std::vector<std::string>& notes) {
  std::vector<std::int64_t> kept;
  std::int64_t empty = 0, too_long = 0;
  for (std::int64_t i = 0; i < corpus.size(); ++i) {
    if (corpus.frames.length(i) == 0) {
      ++empty;
    } else if (most > 0 && corpus.frames.length(i) > most) {
      ++too_long;
    } else {
      kept.push_back(i);
    }
  }
  auto chosen = std::make_shared<FrameCorpus>(corpus.select(kept));
  notes.push_back(fmt::format(
      "{}: {} sequences, {} frames of {} features; left out: {} too long, {} empty", name,
      chosen->size(), chosen->frames.first_frame.back(), chosen->frames.width, too_long, empty));
  SLUICE_CHECK(chosen->size() > 0, "no {} sequence is left: {} were too long and {} empty", name,
               too_long, empty);
  return chosen;
}

void check_alike(const FrameCorpus& train, const FrameCorpus& validation) {
  SLUICE_CHECK(train.frames.width == validation.frames.width,
               "the sequences to validate on have {} features, those to train on {}",
               validation.frames.width, train.frames.width);
  SLUICE_CHECK(train.values.width == validation.values.width,
               "the targets to validate on have {} values, those to train on {}",
               validation.values.width, train.values.width);
}

}  // namespace

TrainData read_features_data(const TrainConfig& config, const Tokenizers* saved,
                             const base::Watch& watch) {
  const DataConfig& files = config.data;
  SLUICE_CHECK(files.validation_features.empty() == files.validation_targets.empty(),
               "data.validation_features and data.validation_targets belong together, but only one "
               "is set");
  TrainData data;
  data.tokenizers = saved != nullptr ? *saved : initial_tokenizers(config);
  const bool classes = config.model.target == "classes", trains = !files.features.empty();
  FeatureExamples train;
  if (trains) {
    tell_reading(watch, files.features);
    train = read_feature_examples(config.model, files.features, files.targets);
    if (!train.note.empty()) data.notes.push_back("training: " + train.note);
    if (classes && !data.tokenizers.labels) {
      data.tokenizers.labels = std::make_shared<data::Labels>(labels_of(train));
    }
    if (classes) find_labels(train, *data.tokenizers.labels, files.targets);
  }

  FrameCorpus validation;
  if (!files.validation_features.empty()) {
    FeatureExamples read =
        read_feature_examples(config.model, files.validation_features, files.validation_targets);
    if (!read.note.empty()) data.notes.push_back("validation: " + read.note);
    if (classes) find_labels(read, *data.tokenizers.labels, files.validation_targets);
    validation = std::move(read.corpus);
    if (trains) check_alike(train.corpus, validation);
  }
  if (files.hold_out_run != 0 || files.hold_out_every != 0) {
    SLUICE_CHECK(validation.size() == 0,
                 "data.validation_features and data.hold_out_run are both set; use one of them");
    const data::IndexSplit split = data::split_by_runs(train.corpus.size(), files.hold_out_run,
                                                       files.hold_out_every, files.hold_out_fold);
    validation = train.corpus.select(split.held_out);
    train.corpus = train.corpus.select(split.train);
  }
  if (trains) data.train = usable(train.corpus, files.max_source_tokens, "training", data.notes);
  if (validation.size() > 0) {
    const auto held = usable(validation, files.max_source_tokens, "validation", data.notes);
    data.validation = held;
    data.samples = [held, tokenizers = data.tokenizers](
                       const Context& context, const models::Model& model, std::int64_t count) {
      return sample_frames(context, model, tokenizers, *held, count);
    };
    if (classes) {
      data.confusion = [held, tokenizers = data.tokenizers](const Context& context,
                                                            const models::Model& model) {
        return confusion_of(context, model, tokenizers, *held);
      };
    }
  }
  return data;
}

}  // namespace sluice::training
