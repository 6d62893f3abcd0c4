#include "training/streamed_data.h"

#include <fmt/format.h>

#include "data/corpus.h"
#include "training/batch_limit.h"
#include "training/example_preparation.h"
#include "training/example_reader.h"
#include "training/language_model_data.h"
#include "training/segmentation.h"
#include "training/seq2seq_data.h"
#include "training/stored_examples.h"

namespace sluice::training {
namespace {

using data::TextPair;

FirstReading<TextPair> read_once(const TrainConfig& config, bool wants_sample,
                                 const base::Watch& watch = {}) {
  const std::string path = ExampleReader::files(config).front();
  FirstReading<TextPair> first = read_first<TextPair>(
      config, wants_sample, path, [&] { return ExampleReader(config); }, watch,
      [](const TextPair&) {});
  if (wants_sample)
    data::require_lines(std::ssize(first.sample) + std::ssize(first.held_out), path);
  return first;
}

void segment(const DataConfig& data, const char* what, std::vector<TextPair>& pairs) {
  segment_field(data.source_segmenter, fmt::format("sources {}", what), pairs, &TextPair::source);
  segment_field(data.target_segmenter, fmt::format("targets {}", what), pairs, &TextPair::target);
}

/// What becomes of the ids of an example: whether it is kept, which is counted.
using Keep = bool (*)(const TrainConfig&, ExampleIds&, data::CorpusReport&);

bool keep_pair(const TrainConfig& config, ExampleIds& ids, data::CorpusReport& report) {
  return data::count_pair(ids.source, ids.target,
                          {config.data.max_source_tokens, config.data.max_target_tokens}, report);
}

/// A text, or, with training.bptt, a stretch of running text with its end.
bool keep_text(const TrainConfig& config, ExampleIds& ids, data::CorpusReport& report) {
  const bool running = config.loop.bptt > 0;
  // There is no source that could be too long or empty.
  const std::vector<std::int32_t> any{data::kFirstPieceId};
  if (running && ids.target.empty()) {
    ++report.kept;
  } else if (!data::count_pair(any, ids.target, {0, config.data.max_target_tokens}, report)) {
    return false;
  }
  if (running) ids.target.push_back(data::kEosId);
  return true;
}

std::shared_ptr<const ExampleStore> store_of(const TrainConfig& config,
                                             const Tokenizers& tokenizers, Keep keep,
                                             const base::Watch& watch) {
  const auto fill = [&](ExampleStoreWriter& writer, data::CorpusReport& report) {
    const auto write = [&](std::vector<TextPair>& pairs) {
      segment(config.data, "to train on", pairs);
      for (const TextPair& pair : pairs) {
        ExampleIds ids;
        if (tokenizers.source) ids.source = tokenizers.source->encode(pair.source);
        ids.target = tokenizers.target->encode(pair.target);
        if (!keep(config, ids, report)) continue;
        require_in_batch(config, {std::ssize(ids.source), std::ssize(ids.target) + 1},
                         example_name("training", report.kept - 1));
        writer.add(ids);
      }
    };
    return for_each_chunk<TextPair>(config.data, ExampleReader(config), watch, write);
  };
  return prepared_store(config, tokenizers, ExampleReader::files(config), fill);
}

std::vector<std::string> targets_of(std::vector<TextPair> pairs) {
  std::vector<std::string> texts;
  for (TextPair& pair : pairs) texts.push_back(std::move(pair.target));
  return texts;
}

Seq2SeqData validation_pairs(const TrainConfig& config, const Tokenizers& tokenizers,
                             std::vector<TextPair> held_out) {
  TextData text{{}, read_validation_pairs(config.data)};
  if (holds_out(config.data)) {
    text.validation = std::move(held_out);
    segment(config.data, "to validate on", text.validation);
  }
  return make_seq2seq_data(config, text, &tokenizers);
}

TrainData validation_texts(const TrainConfig& config, const Tokenizers& tokenizers,
                           std::vector<TextPair> held_out) {
  LanguageModelText text{{}, read_validation_texts(config)};
  if (holds_out(config.data)) {
    text.validation = targets_of(std::move(held_out));
    segment_texts(config.data.target_segmenter, "texts to validate on", text.validation);
  }
  return make_language_model_data(config, text, &tokenizers);
}

}  // namespace

TrainData streamed_seq2seq_validation(const TrainConfig& config, const Tokenizers& tokenizers) {
  TrainData result = to_train_data(
      config, validation_pairs(config, tokenizers, read_once(config, false).held_out));
  result.train = nullptr;
  return result;
}

TrainData streamed_language_model_validation(const TrainConfig& config,
                                             const Tokenizers& tokenizers) {
  return validation_texts(config, tokenizers, read_once(config, false).held_out);
}

TrainData stream_seq2seq_data(const TrainConfig& config, const Tokenizers* saved,
                              const base::Watch& watch) {
  FirstReading<TextPair> first = read_once(config, saved == nullptr, watch);
  segment(config.data, "to train on", first.sample);
  const Tokenizers tokenizers =
      saved != nullptr ? *saved : make_seq2seq_tokenizers(config, first.sample, watch);
  first.sample.clear();
  Seq2SeqData data = validation_pairs(config, tokenizers, std::move(first.held_out));
  const auto store = store_of(config, tokenizers, keep_pair, watch);
  data.train_report = store->report();
  TrainData result = to_train_data(config, std::move(data));
  result.train =
      std::make_shared<StoredPairs>(store, tokenizers.source->size(), tokenizers.target->size());
  return result;
}

TrainData stream_language_model_data(const TrainConfig& config, const Tokenizers* saved,
                                     const base::Watch& watch) {
  FirstReading<TextPair> first = read_once(config, saved == nullptr, watch);
  std::vector<std::string> sample = targets_of(std::move(first.sample));
  segment_texts(config.data.target_segmenter, "texts to train on", sample);
  const Tokenizers tokenizers =
      saved != nullptr ? *saved : make_language_model_tokenizers(config, sample, watch);
  sample.clear();
  TrainData result = validation_texts(config, tokenizers, std::move(first.held_out));
  const auto store = store_of(config, tokenizers, keep_text, watch);
  const std::int64_t vocabulary = tokenizers.target->size();
  const data::CorpusReport& report = store->report();
  result.notes.insert(result.notes.begin(),
                      text_summary("training", report.kept, report.target_tokens,
                                   report.target_unknown, report.too_long, report.empty));
  if (config.loop.bptt == 0) {
    result.train = std::make_shared<StoredTexts>(store, vocabulary);
  } else {
    result.train = std::make_shared<data::StretchCorpus>(
        std::make_shared<StoredRunningText>(store, vocabulary), stretches_of(config),
        config.loop.bptt);
  }
  return result;
}

}  // namespace sluice::training
