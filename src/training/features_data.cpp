#include "training/features_data.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/counted.h"
#include "data/corpus.h"
#include "io/name_of_input.h"
#include "training/batch_limit.h"
#include "training/feature_files.h"
#include "training/initial_weights.h"
#include "training/preparing.h"
#include "training/sample_answers.h"

namespace sluice::training {
namespace {

using data::FrameCorpus;

data::Labels labels_of(const FeatureExamples& read) {
  std::int32_t largest = 0;
  for (const auto& labels : read.corpus.labels) {
    for (const std::int32_t label : labels) largest = std::max(largest, label);
  }
  return feature_labels({read.names.begin(), read.names.end()}, largest);
}

/// Turns names into classes, and refuses classes that are none of the labels.
void find_labels(FeatureExamples& read, const data::Labels& labels, const std::string& path) {
  for (std::size_t i = 0; i < read.names.size(); ++i) {
    const auto label = labels.find(read.names[i]);
    if (!label) {
      labels.refuse(fmt::format("{} line {}", io::name_of_input(path), i + 1), read.names[i]);
    }
    read.corpus.labels.push_back({*label});
  }
  read.names.clear();
  for (std::size_t i = 0; i < read.corpus.labels.size(); ++i) {
    for (const std::int32_t label : read.corpus.labels[i]) {
      if (label < labels.size()) continue;
      labels.refuse(fmt::format("{} sequence {}", io::name_of_input(path), i),
                    std::to_string(label));
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
  notes.push_back(features_summary(name, chosen->size(), chosen->frames.first_frame.back(),
                                   chosen->frames.width, too_long, empty));
  return chosen;
}

void check_alike(const data::FrameExamples& train, const FrameCorpus& validation) {
  SLUICE_CHECK(train.features() == validation.features(),
               "the sequences to validate on have {}, those to train on {}",
               base::counted(validation.features(), "feature"), train.features());
  SLUICE_CHECK(train.outputs() == validation.outputs(),
               "the targets to validate on have {}, those to train on {}",
               base::counted(validation.outputs(), "value"), train.outputs());
}

}  // namespace

void require_features(const DataConfig& files) {
  SLUICE_CHECK(!files.features.empty() && !files.targets.empty(),
               "no examples to train on: set data.features and data.targets");
  SLUICE_CHECK(files.validation_features.empty() == files.validation_targets.empty(),
               "data.validation_features and data.validation_targets belong together, but only one "
               "is set");
  SLUICE_CHECK(files.validation_resets.empty() || !files.validation_features.empty(),
               "data.validation_resets is set, but data.validation_features is not");
  SLUICE_CHECK(
      files.validation_features.empty() || files.resets.empty() == files.validation_resets.empty(),
      "data.resets and data.validation_resets belong together, but only one is set");
  SLUICE_CHECK(!holds_out(files) || files.validation_features.empty(),
               "data.validation_features and data.hold_out_run are both set; use one of them");
}

FeatureExamples read_features_validation(const TrainConfig& config) {
  const DataConfig& files = config.data;
  if (files.validation_features.empty()) return {};
  return read_feature_examples(config.model, files.validation_features, files.validation_targets,
                               files.validation_resets);
}

data::Labels feature_labels(std::set<std::string> names, std::int32_t largest) {
  if (!names.empty()) return data::Labels({names.begin(), names.end()});
  std::vector<std::string> numbers;
  for (std::int32_t label = 0; label <= largest; ++label) numbers.push_back(std::to_string(label));
  return data::Labels(std::move(numbers));
}

std::string features_summary(const char* part, std::int64_t kept, std::int64_t frames,
                             std::int64_t features, std::int64_t too_long, std::int64_t empty) {
  SLUICE_CHECK(kept > 0, "no {} sequence is left: {} were too long and {} empty", part, too_long,
               empty);
  return fmt::format("{}: {}, {} of {}; left out: {} too long, {} empty", part,
                     base::counted(kept, "sequence"), base::counted(frames, "frame"),
                     base::counted(features, "feature"), too_long, empty);
}

void add_features_validation(const TrainConfig& config, FeatureExamples held_out,
                             const std::string& targets, TrainData& data) {
  if (held_out.corpus.size() == 0) return;
  if (!held_out.note.empty()) data.notes.push_back("validation: " + held_out.note);
  if (data.tokenizers.labels) find_labels(held_out, *data.tokenizers.labels, targets);
  if (data.train) {
    check_alike(dynamic_cast<const data::FrameExamples&>(*data.train), held_out.corpus);
  }
  const auto held =
      usable(held_out.corpus, config.data.max_source_tokens, "validation", data.notes);
  data.validation = held;
  data.samples = [held, tokenizers = data.tokenizers](
                     const Context& context, const models::Model& model, std::int64_t count) {
    return sample_frames(context, model, tokenizers, *held, count);
  };
  if (!data.tokenizers.labels) return;
  data.confusion = [held, tokenizers = data.tokenizers](const Context& context,
                                                        const models::Model& model) {
    return confusion_of(context, model, tokenizers, *held);
  };
}

TrainData read_features_data(const TrainConfig& config, const Tokenizers* saved,
                             const base::Watch& watch) {
  const DataConfig& files = config.data;
  require_features(files);
  TrainData data;
  data.tokenizers = saved != nullptr ? *saved : initial_tokenizers(config);
  tell_reading(watch, files.features);
  FeatureExamples train =
      read_feature_examples(config.model, files.features, files.targets, files.resets);
  if (!train.note.empty()) data.notes.push_back("training: " + train.note);
  const bool classes = config.model.target == "classes";
  if (classes && !data.tokenizers.labels) {
    data.tokenizers.labels = std::make_shared<data::Labels>(labels_of(train));
  }
  FeatureExamples validation = read_features_validation(config);
  if (classes) find_labels(train, *data.tokenizers.labels, files.targets);
  if (holds_out(files)) {
    const data::IndexSplit split = data::split_by_runs(train.corpus.size(), files.hold_out_run,
                                                       files.hold_out_every, files.hold_out_fold);
    validation.corpus = train.corpus.select(split.held_out);
    train.corpus = train.corpus.select(split.train);
  }
  const auto usable_train = usable(train.corpus, files.max_source_tokens, "training", data.notes);
  const auto lengths = usable_train->lengths();
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    require_in_batch(config, lengths[i], usable_train->frames.names[i]);
  }
  data.train = usable_train;
  add_features_validation(config, std::move(validation),
                          holds_out(files) ? files.targets : files.validation_targets, data);
  return data;
}

}  // namespace sluice::training
