#include "training/classifier_data.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/counted.h"
#include "data/corpus.h"
#include "data/labelled_corpus.h"
#include "io/name_of_input.h"
#include "training/initial_weights.h"
#include "training/preparing.h"
#include "training/sample_answers.h"
#include "training/segmentation.h"
#include "training/tokenizer_options.h"

namespace sluice::training {
namespace {

data::Labels labels_of(const std::vector<LabelledText>& texts) {
  std::vector<std::string> names;
  for (const LabelledText& text : texts) names.push_back(text.label);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return data::Labels(std::move(names));
}

std::vector<LabelledText> read_texts(const DataConfig& config, const std::string& path) {
  LabelledTextReader reader(config, path);
  std::vector<LabelledText> texts;
  while (auto text = reader.next()) texts.push_back(*std::move(text));
  if (texts.empty()) data::refuse_without_rows(path);
  return texts;
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
      classifier_summary(name, corpus->size(), tokenizers.labels->size(), tokens, too_long, empty));
  return corpus;
}

}  // namespace

LabelledTextReader::LabelledTextReader(const DataConfig& config, const std::string& path)
    : table_(path), path_(path), label_name_(config.label_column) {
  if (table_.columns().empty()) data::refuse_without_rows(path);
  text_ = data::find_column(path, table_.columns(), config.text_column);
  label_ = data::find_column(path, table_.columns(), config.label_column);
}

std::optional<LabelledText> LabelledTextReader::next() {
  auto fields = table_.next();
  if (!fields) return std::nullopt;
  const std::string where =
      fmt::format("{} line {}", io::name_of_input(path_), table_.first_line());
  LabelledText text{std::move((*fields)[text_]), (*fields)[label_], where};
  if (text.label.empty()) {
    base::fail(ErrorCode::kFormat, "{}: the column '{}' is empty; every example needs a label",
               where, label_name_);
  }
  return text;
}

void require_table(const DataConfig& config) {
  SLUICE_CHECK(!config.table.empty(), "no examples to train on: set data.table");
  SLUICE_CHECK(!holds_out(config) || config.validation_table.empty(),
               "data.validation_table and data.hold_out_run are both set; use one of them");
}

std::vector<LabelledText> read_classifier_validation(const DataConfig& config) {
  if (config.validation_table.empty()) return {};
  return read_texts(config, config.validation_table);
}

std::shared_ptr<const data::Tokenizer> make_classifier_vocabulary(
    const TrainConfig& config, const std::vector<LabelledText>& texts, const base::Watch& watch) {
  std::vector<std::string> lines;
  for (const LabelledText& text : texts) lines.push_back(text.text);
  return train_tokenizer(lines, tokenizer_options(config, config.tokenizer.source_vocabulary), "",
                         watch);
}

std::int32_t label_of(const LabelledText& text, const data::Labels& labels) {
  if (const auto label = labels.find(text.label)) return *label;
  labels.refuse(text.where, text.label);
}

std::string classifier_summary(const char* part, std::int64_t kept, std::int64_t labels,
                               std::int64_t tokens, std::int64_t too_long, std::int64_t empty) {
  SLUICE_CHECK(kept > 0, "no {} example is left: {} were too long and {} empty", part, too_long,
               empty);
  return fmt::format("{}: {} of {}, {}; left out: {} too long, {} empty", part,
                     base::counted(kept, "example"), base::counted(labels, "label"),
                     base::counted(tokens, "token"), too_long, empty);
}

void add_classifier_validation(const TrainConfig& config, std::vector<LabelledText> texts,
                               TrainData& data, const base::Watch& watch) {
  if (texts.empty()) return;
  segment_field(config.data.source_segmenter, "texts to validate on", texts, &LabelledText::text);
  const auto held = make_corpus(config, texts, data.tokenizers, "validation", data.notes, watch);
  data.validation = held;
  data.samples = [held, tokenizers = data.tokenizers](
                     const Context& context, const models::Model& model, std::int64_t count) {
    return sample_classes(context, model, tokenizers, *held, count);
  };
  data.confusion = [held, tokenizers = data.tokenizers](const Context& context,
                                                        const models::Model& model) {
    return confusion_of(context, model, tokenizers, *held);
  };
}

TrainData read_classifier_data(const TrainConfig& config, const Tokenizers* saved,
                               const base::Watch& watch) {
  tell_reading(watch, config.data.table);
  require_table(config.data);
  const DataConfig& files = config.data;
  std::vector<LabelledText> train = read_texts(files, files.table);
  TrainData data;
  data.tokenizers = saved != nullptr ? *saved : initial_tokenizers(config);
  // Before some are held out, which may have a label that is in none of the others.
  if (!data.tokenizers.labels) {
    data.tokenizers.labels = std::make_shared<data::Labels>(labels_of(train));
  }
  std::vector<LabelledText> validation = read_classifier_validation(files);
  if (holds_out(files)) {
    const data::IndexSplit split = data::split_by_runs(std::ssize(train), files.hold_out_run,
                                                       files.hold_out_every, files.hold_out_fold);
    const std::span<const LabelledText> all = train;
    validation = data::select(all, split.held_out);
    train = data::select(all, split.train);
  }
  segment_field(files.source_segmenter, "texts to train on", train, &LabelledText::text);
  if (!data.tokenizers.source) {
    data.tokenizers.source = make_classifier_vocabulary(config, train, watch);
  }
  data.train = make_corpus(config, train, data.tokenizers, "training", data.notes, watch);
  add_classifier_validation(config, std::move(validation), data, watch);
  return data;
}

}  // namespace sluice::training
