#include <algorithm>
#include <set>

#include "base/check.h"
#include "training/batch_limit.h"
#include "training/example_preparation.h"
#include "training/features_data.h"
#include "training/initial_weights.h"
#include "training/stored_frames.h"
#include "training/streamed_data.h"

namespace sluice::training {
namespace {

FeatureReader reader_of(const TrainConfig& config) {
  return {config.model, config.data.features, config.data.targets, config.data.resets};
}

/// Those that the sequences to train on are made of.
std::vector<std::string> files_of(const DataConfig& data) {
  std::vector<std::string> files{data.features, data.targets};
  if (!data.resets.empty()) files.push_back(data.resets);
  return files;
}

data::ExampleLengths lengths_of(const FeatureReader& reader) {
  const std::int64_t width = reader.value_width();
  // A name stands for one class.
  const std::int64_t targets = width > 0 ? std::ssize(reader.values()) / width
                                         : std::max<std::int64_t>(std::ssize(reader.labels()), 1);
  return {reader.frames().length(), targets};
}

/// Ids of the classes of the sequence at hand; nothing if targets are values.
std::vector<std::int32_t> classes_of(const FeatureReader& reader, const data::Labels* labels) {
  if (labels == nullptr) return {};
  if (const std::string name = reader.label_name(); !name.empty()) {
    if (const auto label = labels->find(name)) return {*label};
    labels->refuse(reader.target_name(), name);
  }
  for (const std::int32_t label : reader.labels()) {
    if (label < labels->size()) continue;
    labels->refuse(reader.target_name(), std::to_string(label));
  }
  return {reader.labels().begin(), reader.labels().end()};
}

/// What of the sequences to train on is needed in memory.
struct FirstFrames {
  std::set<std::string> names;  ///< of labels
  std::int32_t largest = 0;     ///< of labels that are numbers
  FeatureExamples held_out;
};

/// `labels`: those that training has already, if it has.
FirstFrames read_once(const TrainConfig& config, bool wants_labels, const data::Labels* labels,
                      const base::Watch& watch) {
  FirstFrames first;
  if (!wants_labels && !holds_out(config.data)) return first;
  tell_reading(watch, config.data.features);
  FeatureReader reader = reader_of(config);
  std::int64_t count = 0;
  for (; reader.next(); ++count) {
    if (const std::string name = reader.label_name(); !name.empty()) first.names.insert(name);
    for (const std::int32_t label : reader.labels()) first.largest = std::max(first.largest, label);
    if (!is_held_out(config.data, count)) continue;
    classes_of(reader, labels);  // which refuses what is none of them, with its place
    add_example(reader, first.held_out);
  }
  require_split_of(config.data, count);
  return first;
}

std::shared_ptr<const ExampleStore> store_of(const TrainConfig& config,
                                             const Tokenizers& tokenizers,
                                             const base::Watch& watch) {
  const std::int64_t most = config.data.max_source_tokens;
  const auto fill = [&](ExampleStoreWriter& writer, data::CorpusReport& report) {
    FeatureReader reader = reader_of(config);
    std::int64_t index = 0;
    for (; reader.next(); ++index) {
      if (is_held_out(config.data, index)) continue;
      if (watch && index % kChunk == 0 && index > 0) {
        watch("copies of the training sequences", base::kNobodyKnows);
      }
      const auto classes = classes_of(reader, tokenizers.labels.get());
      if (reader.frames().length() == 0) {
        ++report.empty;
      } else if (most > 0 && reader.frames().length() > most) {
        ++report.too_long;
      } else {
        require_in_batch(config, lengths_of(reader), reader.frames().name());
        ++report.kept;
        report.source_tokens += reader.frames().length();
        writer.add(StoredFrames::to_ids(reader.frames().frames(), reader.values(), classes,
                                        reader.resets()));
      }
    }
    return index;
  };
  return prepared_store(config, tokenizers, files_of(config.data), fill);
}

void add_validation(const TrainConfig& config, FirstFrames& first, TrainData& result) {
  if (holds_out(config.data)) {
    add_features_validation(config, std::move(first.held_out), config.data.targets, result);
  } else {
    add_features_validation(config, read_features_validation(config),
                            config.data.validation_targets, result);
  }
}

}  // namespace

TrainData stream_features_data(const TrainConfig& config, const Tokenizers* saved,
                               const base::Watch& watch) {
  require_features(config.data);
  require_files(files_of(config.data));
  TrainData result;
  Tokenizers& tokenizers = result.tokenizers;
  tokenizers = saved != nullptr ? *saved : initial_tokenizers(config);
  const bool wants_labels = config.model.target == "classes" && !tokenizers.labels;
  FirstFrames first = read_once(config, wants_labels, tokenizers.labels.get(), watch);
  if (wants_labels) {
    tokenizers.labels =
        std::make_shared<data::Labels>(feature_labels(std::move(first.names), first.largest));
  }
  const auto store = store_of(config, tokenizers, watch);

  FeatureReader peek = reader_of(config);
  SLUICE_CHECK(peek.next(), "'{}' holds no sequence", config.data.features);
  if (!peek.note().empty()) result.notes.push_back("training: " + peek.note());
  const std::int64_t width = peek.frames().width();
  const data::CorpusReport& report = store->report();
  result.notes.push_back(features_summary("training", report.kept, report.source_tokens, width,
                                          report.too_long, report.empty));
  result.train = std::make_shared<StoredFrames>(store, width, peek.value_width(),
                                                tokenizers.labels ? tokenizers.labels->size() : 0,
                                                peek.has_resets());
  add_validation(config, first, result);
  return result;
}

TrainData streamed_features_validation(const TrainConfig& config, const Tokenizers& tokenizers) {
  require_features(config.data);
  TrainData result;
  result.tokenizers = tokenizers;
  FirstFrames first = read_once(config, false, tokenizers.labels.get(), {});
  add_validation(config, first, result);
  return result;
}

}  // namespace sluice::training
