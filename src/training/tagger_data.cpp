#include "training/tagger_data.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/check.h"
#include "base/counted.h"
#include "data/tagged_examples.h"
#include "data/train_tokenizer.h"
#include "training/initial_weights.h"
#include "training/preparing.h"
#include "training/sample_answers.h"
#include "training/tagger_scorer.h"

namespace sluice::training {
namespace {

using data::TaggedSentence;

std::shared_ptr<const data::TaggedExamples> make_examples(const TrainConfig& config,
                                                          const char* part, const std::string& path,
                                                          std::span<const TaggedSentence> sentences,
                                                          TrainData& result) {
  data::TaggedReport report;
  auto examples = std::make_shared<data::TaggedExamples>(
      data::make_tagged_examples(sentences, *result.tokenizers.source, *result.tokenizers.labels,
                                 config.data.max_source_tokens, path, &report));
  result.notes.push_back(
      tagger_summary(part, report.kept, report.tokens, report.unknown, report.too_long));
  return examples;
}

}  // namespace

void require_conll(const DataConfig& config) {
  SLUICE_CHECK(!config.conll.empty(), "no sentences to train on: set data.conll");
  SLUICE_CHECK(!holds_out(config) || config.validation_conll.empty(),
               "data.validation_conll and data.hold_out_run are both set; use one of them");
}

data::ConllOptions conll_options(const DataConfig& config) {
  return {config.token_column, config.tag_column, data::parse_label_scheme(config.label_scheme)};
}

std::vector<TaggedSentence> read_tagger_validation(const DataConfig& config) {
  if (config.validation_conll.empty()) return {};
  return data::read_conll(config.validation_conll, conll_options(config));
}

std::shared_ptr<const data::Tokenizer> make_tagger_vocabulary(
    const TokenizerConfig& config, std::span<const TaggedSentence> sentences,
    const base::Watch& watch) {
  std::vector<std::string> lines;
  for (const TaggedSentence& sentence : sentences) {
    lines.push_back(fmt::format("{}", fmt::join(sentence.tokens, " ")));
  }
  const data::VocabularyOptions options{.max_size = config.source_vocabulary,
                                        .min_count = config.min_count};
  return train_tokenizer(lines, {.kind = config.kind, .vocabulary = options}, "", watch);
}

std::string tagger_summary(const char* part, std::int64_t kept, std::int64_t tokens,
                           std::int64_t unknown, std::int64_t too_long) {
  return fmt::format("{}: {}, {} ({} unknown); left out: {} too long", part,
                     base::counted(kept, "sentence"), base::counted(tokens, "token"), unknown,
                     too_long);
}

void add_tagger_validation(const TrainConfig& config, const std::string& path,
                           std::span<const TaggedSentence> sentences, TrainData& result) {
  if (sentences.empty()) return;
  const auto held = make_examples(config, "validation", path, sentences, result);
  result.validation = held;
  result.samples = [held, tokenizers = result.tokenizers](
                       const Context& context, const models::Model& model, std::int64_t count) {
    return sample_labels(context, model, tokenizers, *held, count);
  };
  result.scorer = [labels = result.tokenizers.labels] {
    return std::make_unique<TaggerScorer>(labels);
  };
}

TrainData read_tagger_data(const TrainConfig& config, const Tokenizers* saved,
                           const base::Watch& watch) {
  require_conll(config.data);
  const data::ConllOptions options = conll_options(config.data);
  tell_reading(watch, config.data.conll);
  std::vector<TaggedSentence> train = data::read_conll(config.data.conll, options);

  TrainData result;
  result.tokenizers = saved != nullptr ? *saved : initial_tokenizers(config);
  // Before some are held out, which may have a label that is in none of the others.
  if (!result.tokenizers.labels) {
    result.tokenizers.labels = std::make_shared<data::Labels>(data::labels_of(train));
  }
  std::vector<TaggedSentence> validation = read_tagger_validation(config.data);
  if (holds_out(config.data)) {
    const data::IndexSplit split =
        data::split_by_runs(std::ssize(train), config.data.hold_out_run, config.data.hold_out_every,
                            config.data.hold_out_fold);
    const std::span<const TaggedSentence> all = train;
    validation = data::select(all, split.held_out);
    train = data::select(all, split.train);
  }
  if (!result.tokenizers.source) {
    result.tokenizers.source = make_tagger_vocabulary(config.tokenizer, train, watch);
  }
  result.train = make_examples(config, "training", config.data.conll, train, result);
  add_tagger_validation(config,
                        holds_out(config.data) ? config.data.conll : config.data.validation_conll,
                        validation, result);
  return result;
}

}  // namespace sluice::training
