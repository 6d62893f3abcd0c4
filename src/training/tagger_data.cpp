#include "training/tagger_data.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/check.h"
#include "data/tagged_examples.h"
#include "data/train_tokenizer.h"
#include "training/initial_weights.h"
#include "training/preparing.h"
#include "training/sample_answers.h"
#include "training/tagger_scorer.h"

namespace sluice::training {
namespace {

using data::TaggedSentence;

/// Sentences of one file, or of a part of it.
struct Part {
  const char* name;
  const std::string& path;
  std::vector<TaggedSentence> sentences;
};

data::ConllOptions options_of(const DataConfig& config) {
  return {config.token_column, config.tag_column, data::parse_label_scheme(config.label_scheme)};
}

void hold_out(const DataConfig& config, Part& train, Part& validation) {
  const data::IndexSplit split =
      data::split_by_runs(std::ssize(train.sentences), config.hold_out_run, config.hold_out_every,
                          config.hold_out_fold);
  const std::span<const TaggedSentence> all = train.sentences;
  validation.sentences = data::select(all, split.held_out);
  train.sentences = data::select(all, split.train);
}

std::shared_ptr<const data::Tokenizer> make_vocabulary(const TokenizerConfig& config,
                                                       const Part& train,
                                                       const base::Watch& watch) {
  std::vector<std::string> lines;
  for (const TaggedSentence& sentence : train.sentences) {
    lines.push_back(fmt::format("{}", fmt::join(sentence.tokens, " ")));
  }
  const data::VocabularyOptions options{.max_size = config.source_vocabulary,
                                        .min_count = config.min_count};
  return train_tokenizer(lines, {.kind = config.kind, .vocabulary = options}, "", watch);
}

std::shared_ptr<const data::TaggedExamples> make_examples(const TrainConfig& config,
                                                          const Part& part, TrainData& result) {
  data::TaggedReport report;
  auto examples = std::make_shared<data::TaggedExamples>(data::make_tagged_examples(
      part.sentences, *result.tokenizers.source, *result.tokenizers.labels,
      config.data.max_source_tokens, part.path, &report));
  result.notes.push_back(
      fmt::format("{}: {} sentences, {} tokens ({} unknown); left out: {} too long", part.name,
                  report.kept, report.tokens, report.unknown, report.too_long));
  return examples;
}

}  // namespace

TrainData read_tagger_data(const TrainConfig& config, const Tokenizers* saved,
                           const base::Watch& watch) {
  const bool holds_out = config.data.hold_out_run != 0 || config.data.hold_out_every != 0;
  SLUICE_CHECK(!holds_out || config.data.validation_conll.empty(),
               "data.validation_conll and data.hold_out_run are both set; use one of them");
  const data::ConllOptions options = options_of(config.data);
  Part train{"training", config.data.conll, {}};
  if (!train.path.empty()) {
    tell_reading(watch, train.path);
    train.sentences = data::read_conll(train.path, options);
  }
  Part validation{"validation", holds_out ? train.path : config.data.validation_conll, {}};
  if (!validation.path.empty() && !holds_out) {
    validation.sentences = data::read_conll(validation.path, options);
  }

  TrainData result;
  result.tokenizers = saved != nullptr ? *saved : initial_tokenizers(config);
  // Before some are held out, which may have a label that is in none of the others.
  if (!result.tokenizers.labels) {
    result.tokenizers.labels = std::make_shared<data::Labels>(data::labels_of(train.sentences));
  }
  if (holds_out) hold_out(config.data, train, validation);
  if (!result.tokenizers.source) {
    result.tokenizers.source = make_vocabulary(config.tokenizer, train, watch);
  }
  if (!train.path.empty()) result.train = make_examples(config, train, result);
  if (validation.sentences.empty()) return result;
  const auto held = make_examples(config, validation, result);
  result.validation = held;
  result.samples = [held, tokenizers = result.tokenizers](
                       const Context& context, const models::Model& model, std::int64_t count) {
    return sample_labels(context, model, tokenizers, *held, count);
  };
  result.scorer = [labels = result.tokenizers.labels] {
    return std::make_unique<TaggerScorer>(labels);
  };
  return result;
}

}  // namespace sluice::training
