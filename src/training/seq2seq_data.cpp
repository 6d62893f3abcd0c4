#include "training/seq2seq_data.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/counted.h"
#include "metrics/bleu_tokens.h"
#include "models/seq2seq.h"
#include "training/greedy_answers.h"
#include "training/initial_weights.h"
#include "training/preparing.h"
#include "training/sample_answers.h"
#include "training/segmentation.h"
#include "training/seq2seq_scorer.h"
#include "training/tokenizer_options.h"

namespace sluice::training {
namespace {

using data::TextPair;

/// Reads `tsv`, or `source` with `target`; nothing if none is named.
std::vector<TextPair> read_pairs(std::string_view prefix, const std::string& tsv,
                                 const std::string& source, const std::string& target) {
  SLUICE_CHECK(tsv.empty() || (source.empty() && target.empty()),
               "data.{0}tsv and data.{0}source or target are both set; name the examples once",
               prefix);
  SLUICE_CHECK(source.empty() == target.empty(),
               "data.{0}source and data.{0}target belong together, but only one is set", prefix);
  if (!tsv.empty()) return data::read_tsv_pairs(tsv);
  if (source.empty()) return {};
  return data::read_aligned_pairs(source, target);
}

void hold_out(const DataConfig& config, TextData& text) {
  const auto count = static_cast<std::int64_t>(text.train.size());
  const data::IndexSplit split =
      data::split_by_runs(count, config.hold_out_run, config.hold_out_every, config.hold_out_fold);
  const std::span<const TextPair> all = text.train;
  text.validation = data::select(all, split.held_out);
  text.train = data::select(all, split.train);
}

void segment(const DataConfig& config, const char* what, std::vector<TextPair>& pairs) {
  segment_field(config.source_segmenter, fmt::format("sources {}", what), pairs, &TextPair::source);
  segment_field(config.target_segmenter, fmt::format("targets {}", what), pairs, &TextPair::target);
}

}  // namespace

// Of each side, unless it is taken from the checkpoint that the run starts from.
Tokenizers make_seq2seq_tokenizers(const TrainConfig& config, std::span<const TextPair> pairs,
                                   const base::Watch& watch) {
  Tokenizers tokenizers = initial_tokenizers(config);
  std::vector<std::string> source;
  std::vector<std::string> target;
  for (const TextPair& pair : pairs) {
    source.push_back(pair.source);
    (config.tokenizer.shared ? source : target).push_back(pair.target);
  }
  if (!tokenizers.source) {
    tokenizers.source =
        train_tokenizer(source, tokenizer_options(config, config.tokenizer.source_vocabulary),
                        config.tokenizer.shared ? "shared" : "source", watch);
  }
  if (!tokenizers.target) {
    tokenizers.target =
        config.tokenizer.shared
            ? tokenizers.source
            : train_tokenizer(target, tokenizer_options(config, config.tokenizer.target_vocabulary),
                              "target", watch);
  }
  return tokenizers;
}

namespace {

std::string summary(const char* part, const data::CorpusReport& report) {
  return fmt::format("{}: {}, {} source and {} ({} unknown); left out: {} too long, {} empty", part,
                     base::counted(report.kept, "example"), report.source_tokens,
                     base::counted(report.target_tokens, "target token"),
                     report.source_unknown + report.target_unknown, report.too_long, report.empty);
}

/// The targets of all pairs but those at the (ascending) indices `left_out`.
std::vector<std::string> kept_targets(std::span<const TextPair> pairs,
                                      std::span<const std::int64_t> left_out) {
  std::vector<std::string> targets;
  std::size_t next = 0;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    if (next < left_out.size() && left_out[next] == static_cast<std::int64_t>(i)) {
      ++next;
    } else {
      targets.push_back(pairs[i].target);
    }
  }
  return targets;
}

// Tokens as the vocabulary writes them.
std::vector<std::string> pieces_of(const data::Tokenizer& tokenizer,
                                   std::span<const std::int32_t> ids) {
  std::vector<std::string> pieces;
  for (const std::int32_t id : ids) pieces.push_back(tokenizer.piece(id));
  return pieces;
}

// Of `count` examples that are spread over all; inputs as the model reads them.
std::vector<SampleAnswer> sample_answers(const Context& context, const models::Seq2Seq& model,
                                         const Tokenizers& tokenizers,
                                         const data::PairCorpus& examples, std::int64_t count) {
  std::vector<std::vector<std::int32_t>> sources;
  std::vector<SampleAnswer> samples;
  for (const std::int64_t chosen : spread(examples.size(), count)) {
    const auto example = static_cast<std::size_t>(chosen);
    sources.push_back(examples.source[example]);
    samples.push_back({tokenizers.source->decode(sources.back()), "",
                       tokenizers.target->decode(examples.target[example])});
  }
  const auto answers = greedy_hypotheses(context, model, sources);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    samples[i].answer = tokenizers.target->decode(answers[i].tokens);
    samples[i].attention = {pieces_of(*tokenizers.source, sources[i]),
                            pieces_of(*tokenizers.target, answers[i].tokens), answers[i].attention};
  }
  return samples;
}

}  // namespace

std::vector<TextPair> read_validation_pairs(const DataConfig& config) {
  std::vector<TextPair> pairs = read_pairs("validation_", config.validation_tsv,
                                           config.validation_source, config.validation_target);
  SLUICE_CHECK(pairs.empty() || !holds_out(config),
               "validation files and data.hold_out_run are both set; use one of them");
  segment(config, "to validate on", pairs);
  return pairs;
}

TextData read_text_data(const DataConfig& config, const base::Watch& watch) {
  SLUICE_CHECK(!config.tsv.empty() || !config.source.empty() || !config.target.empty(),
               "no examples to train on: set data.tsv, or data.source and data.target");
  TextData text;
  tell_reading(watch, config.tsv.empty() ? config.source : config.tsv);
  text.train = read_pairs("", config.tsv, config.source, config.target);
  text.validation = read_validation_pairs(config);
  if (holds_out(config)) hold_out(config, text);
  segment(config, "to train on", text.train);
  if (holds_out(config)) segment(config, "to validate on", text.validation);
  return text;
}

Seq2SeqData make_seq2seq_data(const TrainConfig& config, const TextData& text,
                              const Tokenizers* saved, const base::Watch& watch) {
  Seq2SeqData result;
  result.tokenizers =
      saved != nullptr ? *saved : make_seq2seq_tokenizers(config, text.train, watch);
  const data::LengthLimits limits{config.data.max_source_tokens, config.data.max_target_tokens};
  const auto corpus = [&](const std::vector<TextPair>& pairs, const char* name,
                          data::CorpusReport& report) {
    return data::make_corpus(pairs, *result.tokenizers.source, *result.tokenizers.target, limits,
                             name, &report, watch);
  };
  if (!text.train.empty()) {
    result.train = corpus(text.train, "the training examples", result.train_report);
  }
  if (!text.validation.empty()) {
    result.validation =
        corpus(text.validation, "the validation examples", result.validation_report);
    result.references = kept_targets(text.validation, result.validation_report.left_out);
  }
  return result;
}

TrainData to_train_data(const TrainConfig& config, Seq2SeqData data) {
  TrainData result;
  result.tokenizers = data.tokenizers;
  if (data.train_report.kept > 0) {
    result.notes.push_back(summary("training", data.train_report));
  }
  result.train = std::make_shared<data::PairCorpus>(std::move(data.train));
  if (data.validation.size() == 0) return result;
  result.notes.push_back(summary("validation", data.validation_report));
  const auto validation = std::make_shared<data::PairCorpus>(std::move(data.validation));
  result.validation = validation;
  result.samples = [validation, tokenizers = data.tokenizers](
                       const Context& context, const models::Model& model, std::int64_t count) {
    return sample_answers(context, dynamic_cast<const models::Seq2Seq&>(model), tokenizers,
                          *validation, count);
  };
  if (std::ssize(data.references) != validation->size()) return result;
  const auto references = std::make_shared<std::vector<std::string>>(std::move(data.references));
  const auto bleu_tokenizer = metrics::parse_bleu_tokenizer(config.loop.bleu_tokenizer);
  result.scorer = [validation, references, bleu_tokenizer, target = data.tokenizers.target] {
    return std::make_unique<Seq2SeqScorer>(validation, references, target, bleu_tokenizer);
  };
  return result;
}

TrainData make_train_data(const TrainConfig& config, const TextData& text, const Tokenizers* saved,
                          const base::Watch& watch) {
  return to_train_data(config, make_seq2seq_data(config, text, saved, watch));
}

}  // namespace sluice::training
