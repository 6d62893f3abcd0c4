#include "training/classifier_data.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "data/corpus.h"
#include "data/labelled_corpus.h"
#include "data/table.h"
#include "training/initial_weights.h"
#include "training/preparing.h"
#include "training/sample_answers.h"
#include "training/segmentation.h"
#include "training/tokenizer_options.h"

namespace sluice::training {
namespace {

/// A text and its label, and where they stand.
struct LabelledText {
  std::string text, label, where;
};

std::vector<LabelledText> read_texts(const DataConfig& config, const std::string& path) {
  const data::Table table = data::read_table(path);
  const std::size_t text = table.column(config.text_column);
  const std::size_t label = table.column(config.label_column);
  std::vector<LabelledText> texts;
  for (std::size_t row = 0; row < table.rows.size(); ++row) {
    texts.push_back({table.rows[row][text], table.rows[row][label], table.where(row)});
    if (texts.back().label.empty()) {
      base::fail(ErrorCode::kFormat, "{}: the column '{}' is empty; every example needs a label",
                 table.where(row), config.label_column);
    }
  }
  return texts;
}

data::Labels labels_of(const std::vector<LabelledText>& texts) {
  std::vector<std::string> names;
  for (const LabelledText& text : texts) names.push_back(text.label);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return data::Labels(std::move(names));
}

struct Texts {
  std::vector<LabelledText> train, validation;
  /// Of all of the file to train on, with those that are held out of it; null if there is none.
  std::shared_ptr<const data::Labels> labels;
};

Texts read_tables(const DataConfig& config) {
  Texts texts;
  if (!config.table.empty()) {
    texts.train = read_texts(config, config.table);
    texts.labels = std::make_shared<data::Labels>(labels_of(texts.train));
  }
  if (!config.validation_table.empty()) {
    texts.validation = read_texts(config, config.validation_table);
  }
  if (config.hold_out_run == 0 && config.hold_out_every == 0) return texts;
  SLUICE_CHECK(texts.validation.empty(),
               "data.validation_table and data.hold_out_run are both set; use one of them");
  const data::IndexSplit split = data::split_by_runs(std::ssize(texts.train), config.hold_out_run,
                                                     config.hold_out_every, config.hold_out_fold);
  const std::span<const LabelledText> all = texts.train;
  texts.validation = data::select(all, split.held_out);
  texts.train = data::select(all, split.train);
  return texts;
}

std::int32_t label_of(const LabelledText& text, const data::Labels& labels) {
  if (const auto label = labels.find(text.label)) return *label;
  base::fail(ErrorCode::kFormat, "{}: the label '{}' is none of the {} that training has",
             text.where, text.label.substr(0, 100), labels.size());
}

/// With a line for people on what was read.
std::shared_ptr<const data::LabelledCorpus> make_corpus(
    const TrainConfig& config, const std::vector<LabelledText>& texts, const Tokenizers& tokenizers,
    const char* name, std::vector<std::string>& notes, const base::Watch& watch) {
  const auto corpus = std::make_shared<data::LabelledCorpus>();
  const std::int64_t most = config.data.max_source_tokens;
  std::int64_t empty = 0, too_long = 0, tokens = 0;
  base::WatchedItems watched(watch, fmt::format("token ids of the {} examples", name),
                             std::ssize(texts));
  for (const LabelledText& text : texts) {
    watched.one_done();
    std::vector<std::int32_t> ids = tokenizers.source->encode(text.text);
    const std::int32_t label = label_of(text, *tokenizers.labels);
    if (ids.empty()) {
      ++empty;
    } else if (most > 0 && std::ssize(ids) > most) {
      ++too_long;
    } else {
      tokens += std::ssize(ids);
      corpus->source.push_back(std::move(ids));
      corpus->labels.push_back(label);
    }
  }
  notes.push_back(
      fmt::format("{}: {} examples of {} labels, {} tokens; left out: {} too long, {} "
                  "empty",
                  name, corpus->size(), tokenizers.labels->size(), tokens, too_long, empty));
  SLUICE_CHECK(corpus->size() > 0, "no {} example is left: {} were too long and {} empty", name,
               too_long, empty);
  return corpus;
}

}  // namespace

TrainData read_classifier_data(const TrainConfig& config, const Tokenizers* saved,
                               const base::Watch& watch) {
  tell_reading(watch, config.data.table);
  Texts texts = read_tables(config.data);
  const std::string& segmenter = config.data.source_segmenter;
  segment_field(segmenter, "texts to train on", texts.train, &LabelledText::text);
  segment_field(segmenter, "texts to validate on", texts.validation, &LabelledText::text);
  TrainData data;
  data.tokenizers = saved != nullptr ? *saved : initial_tokenizers(config);
  if (!data.tokenizers.source) {
    std::vector<std::string> lines;
    for (const LabelledText& text : texts.train) lines.push_back(text.text);
    data.tokenizers.source = train_tokenizer(
        lines, tokenizer_options(config, config.tokenizer.source_vocabulary), "", watch);
  }
  if (!data.tokenizers.labels) data.tokenizers.labels = std::move(texts.labels);
  if (!config.data.table.empty()) {
    data.train = make_corpus(config, texts.train, data.tokenizers, "training", data.notes, watch);
  }
  if (texts.validation.empty()) return data;
  const auto held =
      make_corpus(config, texts.validation, data.tokenizers, "validation", data.notes, watch);
  data.validation = held;
  data.samples = [held, tokenizers = data.tokenizers](
                     const Context& context, const models::Model& model, std::int64_t count) {
    return sample_classes(context, model, tokenizers, *held, count);
  };
  data.confusion = [held, tokenizers = data.tokenizers](const Context& context,
                                                        const models::Model& model) {
    return confusion_of(context, model, tokenizers, *held);
  };
  return data;
}

}  // namespace sluice::training
