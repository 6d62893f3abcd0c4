#include "training/streamed_data.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>

#include "base/check.h"
#include "data/segmenter.h"
#include "training/config_keys.h"
#include "training/crc32c.h"
#include "training/example_reader.h"
#include "training/example_store.h"
#include "training/language_model_data.h"
#include "training/preparing.h"
#include "training/segmentation.h"
#include "training/seq2seq_data.h"
#include "training/stored_examples.h"

namespace sluice::training {
namespace {

namespace fs = std::filesystem;
using data::TextPair;

/// Pairs that are in memory together while they become ids.
constexpr std::int64_t kChunk = 16384;

bool holds_out(const DataConfig& data) {
  return data.hold_out_run != 0 || data.hold_out_every != 0;
}

bool is_held_out(const DataConfig& data, std::int64_t index) {
  return holds_out(data) &&
         data::is_held_out(index, data.hold_out_run, data.hold_out_every, data.hold_out_fold);
}

/// Text of the examples that is needed in memory.
struct FirstReading {
  std::vector<TextPair> sample;    ///< of those to train on, for vocabularies
  std::vector<TextPair> held_out;  ///< to validate on
};

FirstReading read_once(const TrainConfig& config, bool wants_sample,
                       const base::Watch& watch = {}) {
  FirstReading result;
  if (!wants_sample && !holds_out(config.data)) return result;
  tell_reading(watch, ExampleReader::files(config).front());
  PairSample sample(config.data.stream_vocabulary_lines,
                    static_cast<std::uint64_t>(config.loop.seed));
  ExampleReader reader(config);
  std::int64_t count = 0;
  for (; auto pair = reader.next(); ++count) {
    if (is_held_out(config.data, count)) {
      result.held_out.push_back(*std::move(pair));
    } else if (wants_sample) {
      sample.add(*std::move(pair));
    }
  }
  if (holds_out(config.data)) {
    data::require_split(count, config.data.hold_out_run, config.data.hold_out_every,
                        config.data.hold_out_fold);
  }
  result.sample = sample.take();
  return result;
}

void segment(const DataConfig& data, const char* what, std::vector<TextPair>& pairs) {
  segment_field(data.source_segmenter, fmt::format("sources {}", what), pairs, &TextPair::source);
  segment_field(data.target_segmenter, fmt::format("targets {}", what), pairs, &TextPair::target);
}

/// What ids depend on: files as far as size and time of change tell, settings and vocabularies.
std::string key_of(const TrainConfig& config, const Tokenizers& tokenizers) {
  std::string key = "1";
  for (const std::string& path : ExampleReader::files(config)) {
    std::error_code error;
    const auto size = fs::file_size(path, error);
    const auto changed = error ? fs::file_time_type{} : fs::last_write_time(path, error);
    if (error) base::fail(ErrorCode::kIo, "'{}' can't be read: {}", path, error.message());
    key += fmt::format("; {} {} {}", path, size, changed.time_since_epoch().count());
  }
  for (const ConfigKey& setting : config_keys()) {
    const bool matters = setting.section() == "data" || setting.name == "training.bptt";
    if (matters) key += fmt::format("; {}", setting.value_of(config));
  }
  for (const auto& [name, bytes] : to_blobs(tokenizers)) {
    key += fmt::format("; {} {} {:08x}", name, bytes.size(), crc32c(bytes));
  }
  return key;
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

void write_chunk(const TrainConfig& config, const Tokenizers& tokenizers, Keep keep,
                 std::vector<TextPair>& pairs, ExampleStoreWriter& writer,
                 data::CorpusReport& report) {
  segment(config.data, "to train on", pairs);
  for (const TextPair& pair : pairs) {
    ExampleIds ids;
    if (tokenizers.source) ids.source = tokenizers.source->encode(pair.source);
    ids.target = tokenizers.target->encode(pair.target);
    if (keep(config, ids, report)) writer.add(ids);
  }
  pairs.clear();
}

void prepare(const TrainConfig& config, const Tokenizers& tokenizers, Keep keep,
             const fs::path& path, const std::string& key, const base::Watch& watch) {
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  if (error) {
    base::fail(ErrorCode::kIo, "the folder '{}' can't be made: {}", path.parent_path().string(),
               error.message());
  }
  ExampleStoreWriter writer(path);
  ExampleReader reader(config);
  data::CorpusReport report;
  std::vector<TextPair> chunk;
  std::int64_t index = 0;
  for (; auto pair = reader.next(); ++index) {
    if (is_held_out(config.data, index)) continue;
    if (watch && index % kChunk == 0 && index > 0) {
      watch("token ids of the training examples", base::kNobodyKnows);
    }
    chunk.push_back(*std::move(pair));
    if (std::ssize(chunk) == kChunk) {
      write_chunk(config, tokenizers, keep, chunk, writer, report);
    }
  }
  write_chunk(config, tokenizers, keep, chunk, writer, report);
  SLUICE_CHECK(report.kept > 0,
               "no training example is left: of {} {} were too long and {} had an empty side",
               index, report.too_long, report.empty);
  report.left_out.clear();
  writer.finish(key, report);
}

std::shared_ptr<const ExampleStore> store_of(const TrainConfig& config,
                                             const Tokenizers& tokenizers, Keep keep,
                                             const base::Watch& watch) {
  const fs::path path = fs::path(config.output.directory) / "prepared" / "train";
  const std::string key = key_of(config, tokenizers);
  std::optional<ExampleStore> store = ExampleStore::open(path, key);
  if (!store) {
    prepare(config, tokenizers, keep, path, key, watch);
    store = ExampleStore::open(path, key);
  }
  if (!store) {
    base::fail(ErrorCode::kIo, "what was written to '{}' is not there; is the disk sound?",
               path.string());
  }
  return std::make_shared<const ExampleStore>(*std::move(store));
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
  FirstReading first = read_once(config, saved == nullptr, watch);
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
  FirstReading first = read_once(config, saved == nullptr, watch);
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
